#include "study/folder/run_lookup.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/folder/run_folder.hpp"

#include <cstddef>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> runs = newest_first(folder);
  std::erase_if(runs, [](const fs::path& run) { return !is_run_folder(run); });
  return runs;
}

/// Returns the runs of all experiments below `root`, newest first. Those of one experiment keep
/// their order, and the times in the names decide between experiments.
std::vector<fs::path> all_runs(const fs::path& root) {
  std::vector<fs::path> all;
  for (const fs::path& experiment : newest_first(root)) {
    std::size_t at = 0;
    for (const fs::path& run : runs_in(experiment)) {
      while (at < all.size() && all[at].filename() >= run.filename()) ++at;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(at++), run);
    }
  }
  return all;
}

RunSearch first_with(const std::vector<fs::path>& runs, RunNeeds needs) {
  RunSearch search;
  for (const fs::path& run : runs) {
    if (meets(run, needs)) {
      search.run = run;
      break;
    }
    search.skipped.push_back(run);
  }
  return search;
}

std::optional<NamedRun> first_or_newest(const std::vector<fs::path>& runs, RunNeeds needs) {
  if (runs.empty()) return std::nullopt;
  RunSearch search = first_with(runs, needs);
  if (!search.run) return NamedRun{runs.front(), {}};
  return NamedRun{*search.run, std::move(search.skipped)};
}

}  // namespace

RunSearch newest_run(const fs::path& root, const std::string& name, RunNeeds needs) {
  return first_with(runs_in(fs::absolute(root) / folder_name(name)), needs);
}

std::optional<NamedRun> run_called(const std::string& word, const fs::path& root, RunNeeds needs) {
  if (word.empty()) return std::nullopt;
  if (is_run_folder(word)) return NamedRun{word, {}};
  std::optional<NamedRun> found;
  if (word.find('/') == std::string::npos)
    found = first_or_newest(word == "latest" ? all_runs(root) : runs_in(root / word), needs);
  return found ? found : first_or_newest(runs_in(word), needs);
}

fs::path find_run(const std::string& word, const fs::path& root) {
  const auto found = run_called(word, root);
  ENSURE(config, found.has_value(),
         "there is no run '{}': it is neither a run folder (with config.resolved.yaml) nor an "
         "experiment with runs below {}; name a folder, or another place by --out",
         printable(word), printable(root.string()));
  return found->folder;
}

}  // namespace trainctl::study
