#include "study/run_names.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/task.hpp"
#include "study/run_folder.hpp"

#include <algorithm>
#include <functional>
#include <system_error>

namespace trainctl::study {
namespace {

bool is_resolved_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.resolved.yaml", ignored);
}

/// The run folders in a folder, newest first by the time in their names. Links are left out.
std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code ignored;
    if (is_resolved_run(at->path()) && !at->is_symlink(ignored)) runs.push_back(at->path());
  }
  std::ranges::sort(runs, std::greater());
  return runs;
}

std::optional<fs::path> newest_run(const fs::path& folder) {
  const std::vector<fs::path> runs = runs_in(folder);
  return runs.empty() ? std::nullopt : std::optional(runs.front());
}

std::optional<fs::path> newest_of_all(const fs::path& root) {
  std::optional<fs::path> newest;
  std::error_code failure;
  for (fs::directory_iterator at(root, failure), end; !failure && at != end;
       at.increment(failure)) {
    const auto run = newest_run(at->path());
    if (run && (!newest || newest->filename() < run->filename())) newest = run;
  }
  return newest;
}

bool is_training(const fs::path& run_dir) {
  try {
    return spec::read_task(run_dir).kind == spec::TaskKind::train;
  } catch (const Error&) {  // the task file is damaged
    return false;
  }
}

}  // namespace

std::vector<fs::path> training_runs(const fs::path& root, const std::string& name) {
  std::vector<fs::path> runs = runs_in(fs::absolute(root) / folder_name(name));
  std::erase_if(runs, [](const fs::path& run_dir) { return !is_training(run_dir); });
  return runs;
}

std::optional<fs::path> run_called(const std::string& word, const fs::path& root) {
  if (word.empty()) return std::nullopt;
  if (is_resolved_run(word)) return word;
  std::optional<fs::path> found;
  if (word.find('/') == std::string::npos)
    found = word == "latest" ? newest_of_all(root) : newest_run(root / word);
  return found ? found : newest_run(word);
}

fs::path find_run(const std::string& word, const fs::path& root) {
  const auto found = run_called(word, root);
  ENSURE(config, found.has_value(),
         "there is no run '{}': it is neither a run folder (with config.resolved.yaml) nor an "
         "experiment with runs below {}; name a folder, or another place by --out",
         printable(word), printable(root.string()));
  return *found;
}

}  // namespace trainctl::study
