#include "study/run_names.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/task.hpp"
#include "study/resume.hpp"
#include "study/run_folder.hpp"

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>

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

/// Weights for evaluation, as runs without checkpoints may keep: best.safetensors.
bool has_weights(const fs::path& run_dir) {
  std::error_code failure;
  for (fs::directory_iterator at(run_dir / "checkpoints", failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().extension() == ".safetensors") return true;
  }
  return false;
}

/// The run folders of all experiments below `root`, newest first.
std::vector<fs::path> all_runs(const fs::path& root) {
  std::vector<fs::path> all;
  std::error_code failure;
  for (fs::directory_iterator at(root, failure), end; !failure && at != end;
       at.increment(failure)) {
    for (fs::path& run : runs_in(at->path())) all.push_back(std::move(run));
  }
  std::ranges::sort(all, std::greater(), [](const fs::path& run) { return run.filename(); });
  return all;
}

/// Returns the first of `runs` that has what is needed, or the first if none has.
std::optional<NamedRun> first_with(const std::vector<fs::path>& runs, RunNeeds needs) {
  if (runs.empty()) return std::nullopt;
  NamedRun found;
  for (const fs::path& run : runs) {
    found.folder = run;
    if (needs == RunNeeds::nothing || has_checkpoint(run)) return found;
    if (needs == RunNeeds::weights ? has_weights(run) : is_in_use(run)) return found;
    found.skipped.push_back(run);
  }
  return NamedRun{runs.front(), {}};
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

std::optional<NamedRun> run_called(const std::string& word, const fs::path& root, RunNeeds needs) {
  if (word.empty()) return std::nullopt;
  if (is_resolved_run(word)) return NamedRun{word, {}};
  std::optional<NamedRun> found;
  if (word.find('/') == std::string::npos)
    found = first_with(word == "latest" ? all_runs(root) : runs_in(root / word), needs);
  return found ? found : first_with(runs_in(word), needs);
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
