#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "study/folder/folder_lock.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// What a verb needs of a run that is named by its experiment: a run that failed at its start has
/// no checkpoint, and `eval NAME` means the one before it.
enum class RunNeeds {
  nothing,
  weights,         // a checkpoint, or a file of weights next to the checkpoints
  best_weights,    // what weights_named("best") finds
  last_weights,    // what weights_named("last") finds
  checkpoint,      // a committed one
  resumable,       // a checkpoint with the whole state, or one that was found damaged
  resumable_best,  // the whole state in the checkpoint that the link `best` leads to
  success,         // the exit code is 0
};

/// Returns whether the run has what is needed. A run that another process trains is resumable: its
/// lock refuses a second one, and training that goes on is never skipped.
bool meets(const fs::path& run_dir, RunNeeds needs);

/// Returns what to say of a run that does not meet the needs: "without a checkpoint".
std::string lacking(RunNeeds needs);

/// Returns whether the folder is that of a run: it has config.resolved.yaml, or a checkpoint, from
/// which that file can be restored.
bool is_run_folder(const fs::path& folder);

/// Returns whether the run has a checkpoint, or one that was found damaged: a run that has lost all
/// of its checkpoints is not skipped in silence.
bool has_checkpoint(const fs::path& run_dir);

/// Returns `best` or `last` of a run: the file NAME.safetensors next to its checkpoints, or else
/// the checkpoint that the link leads to.
std::optional<fs::path> weights_named(const fs::path& run_dir, const std::string& name);

/// Returns why task.json of the run cannot be used; empty if it can, or does not exist.
std::string task_damage(const fs::path& run_dir);

/// Returns whether the folder is that of training, not of an evaluation. If task.json is damaged, a
/// run with checkpoints is training.
bool is_training(const fs::path& run_dir);

/// go_on: what lies in the fixed folder is a run that is resumed.
enum class IfUsed { refuse, go_on };

struct FolderRequest {
  std::string name;                       // the experiment's name
  fs::path root = "runs";                 // --out
  std::optional<fs::path> fixed;          // --run-dir: this folder, not a fresh one
  IfLocked if_locked = IfLocked::refuse;  // the fixed one
  IfUsed if_used = IfUsed::refuse;        // the fixed one
  std::vector<fs::path> skipped = {};     // newer runs that cannot be resumed, see resumed_folder()
  std::string skipped_why = {};           // "without a checkpoint", see lacking()
};

struct RunFolder {
  fs::path path;
  FolderLock lock;
};

/// Makes the run's folder, empty and ours: runs/<name>/<utc_stamp()>/, and points
/// runs/<name>/latest at it. The path has no links: `latest` may lead to another run while this one
/// is trained. Throws Error(resource) where the root cannot be written or another run
/// is using a fixed folder, Error(config) where that is not empty and not to be resumed.
RunFolder make_run_folder(const FolderRequest& request);

/// Returns the folders in `parent` (runs or sweeps of one name), newest first: the one that
/// `latest` leads to, then by the time in their names. Links are left out. Empty if there are none.
std::vector<fs::path> newest_first(const fs::path& parent);

/// Returns the newest folder that make_run_folder() made for the request, if there is one.
std::optional<fs::path> newest_folder(const FolderRequest& request);

/// Returns the absolute path without links, "..", and a "/" at the end, also of a folder that does
/// not exist yet.
fs::path real_folder(const fs::path& folder);

/// Returns whether a regular file lies there, as far as that can be seen.
bool is_file(const fs::path& path);

/// Returns the JSON object that a file of a run folder holds; null where there is no file, or it
/// holds no object. Throws Error(resource) where it cannot be read.
Json read_object(const fs::path& file);
/// The same; null where it cannot be read, too.
Json object_if_readable(const fs::path& file);

/// The experiment's name as a single folder name: letters, digits, '.', '-', '_'.
std::string folder_name(const std::string& name);

struct RunSearch {
  std::optional<fs::path> run;    // the newest that has what is needed
  std::vector<fs::path> skipped;  // newer runs that lack it
};

/// Searches the runs of an experiment below `root`, in the order of newest_first().
RunSearch newest_run(const fs::path& root, const std::string& name, RunNeeds needs);

struct NamedRun {
  fs::path folder;
  std::vector<fs::path> skipped;  // newer runs that lack what is needed
};

/// Returns the run folder that a word of the command line means: that folder itself; `latest` for
/// the newest run below `root`; `NAME` for the newest run of an experiment below `root`; or a
/// folder that holds runs, for the newest of them. If no run has what is needed, the newest of all.
/// Returns nothing if there is no run.
std::optional<NamedRun> run_called(const std::string& word, const fs::path& root,
                                   RunNeeds needs = RunNeeds::nothing);

/// Returns the folder that run_called() finds. Throws Error(config) that says what was looked for.
fs::path find_run(const std::string& word, const fs::path& root);

/// A folder of its own for a task whose files nobody has asked for. Gone with this object, unless
/// it was kept for somebody to look into.
class ScratchFolder {
 public:
  /// Made in `parent`; those there whose run was killed, as their stale `.lock` tells, are removed.
  /// Throws Error(resource) where it cannot be written.
  explicit ScratchFolder(const fs::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

/// Where a scratch folder may lie that nothing is to stay near. Throws Error(resource) where TMPDIR
/// names no folder.
fs::path temporary_folder();

}  // namespace trainctl::study
