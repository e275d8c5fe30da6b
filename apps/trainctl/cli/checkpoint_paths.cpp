#include "cli/checkpoint_paths.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "cli/run_paths.hpp"

#include <algorithm>
#include <system_error>

namespace trainctl::app {
namespace {

/// Without links and "..", so that its name is the checkpoint's.
fs::path found_folder(const std::string& path) {
  std::error_code failure;
  const fs::path found =
      fs::canonical(run_word(path, "runs", study::RunNeeds::checkpoint), failure);
  ENSURE(checkpoint, !failure, "cannot find {}: {}", printable(path), failure.message());
  ENSURE(checkpoint, checkpoint::is_folder(found), "{} is no folder, as checkpoints are",
         printable(path));
  return found;
}

bool is_one(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return checkpoint::is_committed(folder) || checkpoint::parse_folder_name(name) ||
         name.starts_with(checkpoint::kAsidePrefix);
}

/// Of a run folder that below it.
fs::path store_in(const fs::path& folder) {
  const fs::path below = folder / "checkpoints";
  return checkpoint::is_folder(below) ? below : folder;
}

}  // namespace

fs::path checkpoints_folder(const std::string& path) {
  const fs::path folder = found_folder(path);
  ENSURE(checkpoint, !is_one(folder),
         "{} is one checkpoint: name its run, or look into it with 'checkpoint inspect'",
         printable(path));
  return store_in(folder);
}

fs::path one_checkpoint(const std::string& path) {
  const fs::path folder = found_folder(path);
  if (is_one(folder)) return folder;
  const std::vector<checkpoint::Found> all = checkpoint::Store(store_in(folder)).list();
  const auto newest = std::ranges::find_if(all, &checkpoint::Found::committed);
  ENSURE(checkpoint, newest != all.end(), "there is no checkpoint in {}", printable(path));
  return newest->path;
}

}  // namespace trainctl::app
