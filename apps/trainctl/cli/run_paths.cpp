#include "cli/run_paths.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "cli/context.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace trainctl::app {
namespace {

/// Returns the runs of a sweep folder in order, or else the folder itself.
std::vector<std::string> runs_of_folder(const std::string& folder) {
  std::vector<std::string> runs;
  std::error_code failure;
  if (!report::is_run_folder(folder)) {
    for (fs::directory_iterator at(fs::path(folder) / "runs", failure), end; !failure && at != end;
         at.increment(failure)) {
      if (report::is_run_folder(at->path())) runs.push_back(at->path().string());
    }
  }
  std::ranges::sort(runs);
  return runs.empty() ? std::vector<std::string>{folder} : runs;
}

}  // namespace

std::string skipped_text(const std::vector<fs::path>& skipped, study::RunNeeds needs) {
  std::vector<std::string> names;
  for (const fs::path& folder : skipped) names.push_back(folder.string());
  return fmt::format("skipped {} newer {} {}: {}", names.size(), names.size() == 1 ? "run" : "runs",
                     study::unmet_text(needs), shortened(names));
}

std::string run_word(const std::string& word, const fs::path& root, study::RunNeeds needs) {
  if (is_file(word) || report::is_run_folder(word)) return word;
  const auto run = study::lookup_run(word, root, needs);
  if (!run) return word;
  if (!run->skipped.empty())
    put(stderr, fmt::format("'{}' is the run {}; {}\n", printable(word),
                            printable(run->folder.string()), skipped_text(run->skipped, needs)));
  return run->folder.string();
}

std::vector<std::string> runs_of_word(const std::string& word) {
  if (path_exists(word)) return runs_of_folder(run_word(word));
  std::vector<std::string> folders;
  for (const std::string& name : split(word, ',')) {
    if (name.empty()) continue;
    const std::string one = run_word(name);
    ENSURE(config, path_exists(one),
           "cannot find the run '{}': it is neither a folder nor an experiment with runs in runs/",
           printable(one));
    for (std::string& folder : runs_of_folder(one)) folders.push_back(std::move(folder));
  }
  ENSURE(config, !folders.empty(), "'{}' is not a run", printable(word));
  return folders;
}

void print_notes(const report::RunFiles& run, const Context& context) {
  for (const std::string& note : run.notes) {
    const bool is_damage =
        note.find("damaged") != std::string::npos || note.find(": line ") != std::string::npos;
    if (is_damage || !(context.quiet || context.json))
      put(stderr,
          fmt::format("warning: {}: {}\n", printable(run.folder.string()), printable(note)));
  }
}

namespace {

/// Resolves links and "..", so that the last part of the path is the checkpoint's name.
fs::path found_folder(const std::string& path) {
  std::error_code failure;
  const fs::path found =
      fs::canonical(run_word(path, "runs", study::RunNeeds::checkpoint), failure);
  ENSURE(checkpoint, !failure, "cannot find {}: {}", printable(path), failure.message());
  ENSURE(checkpoint, checkpoint::is_folder(found),
         "{} must be a checkpoint folder or a run folder, got a file", printable(path));
  return found;
}

bool is_one(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return checkpoint::is_committed(folder) || checkpoint::parse_folder_name(name) ||
         name.starts_with(checkpoint::kQuarantinePrefix);
}

/// Returns the checkpoint folder of a run folder, or the folder itself.
fs::path store_in(const fs::path& folder) {
  const fs::path below = folder / "checkpoints";
  return checkpoint::is_folder(below) ? below : folder;
}

}  // namespace

fs::path checkpoints_folder(const std::string& path) {
  const fs::path folder = found_folder(path);
  ENSURE(checkpoint, !is_one(folder),
         "{} is a checkpoint, not a run\nhint: name its run, or use 'checkpoint inspect'",
         printable(path));
  return store_in(folder);
}

fs::path one_checkpoint(const std::string& path) {
  const fs::path folder = found_folder(path);
  if (is_one(folder)) return folder;
  const std::vector<checkpoint::StoredCheckpoint> all = checkpoint::Store(store_in(folder)).list();
  const auto newest = std::ranges::find_if(all, &checkpoint::StoredCheckpoint::committed);
  ENSURE(checkpoint, newest != all.end(), "there is no checkpoint in {}", printable(path));
  return newest->path;
}

}  // namespace trainctl::app
