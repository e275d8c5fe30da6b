#include "report/html/sweep_page.hpp"

namespace trainctl::report {
namespace {

/// Where the sweep says; a relative folder is beside the document, or below the current one.
fs::path folder_of(const Json& run, const fs::path& sweep) {
  const fs::path told = text_at(run, "run_dir");
  const fs::path beside = sweep / told;
  return !told.empty() && is_run_folder(beside) ? beside : told;
}

}  // namespace

std::vector<SweptRun> swept_runs(const Json& sweep, const fs::path& folder) {
  std::vector<SweptRun> runs;
  const Json& list = member(sweep, "runs");
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    const fs::path run = folder_of(list[i], folder);
    if (run.empty() || !is_run_folder(run)) continue;
    const Json& id = member(list[i], "id");
    runs.push_back({id.is_string() ? id.get<std::string>() : to_line(id), read_run(run)});
  }
  return runs;
}

}  // namespace trainctl::report
