#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "study/folder/folder_lock.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The state that a verb requires of a run that is named by its experiment. A run that failed at
/// its start has no checkpoint, and `eval NAME` then uses the previous run.
enum class RunNeeds {
  nothing,
  weights,         // a checkpoint, or a file of weights next to the checkpoints
  best_weights,    // what weights_named("best") finds
  last_weights,    // what weights_named("last") finds
  checkpoint,      // a committed checkpoint
  resumable,       // a checkpoint with the whole state, or a damaged one
  resumable_best,  // the whole state in the checkpoint that the `best` link points to
  success,         // the exit code is 0
};

/// Returns whether the run satisfies the requirement. A run that another process is training counts
/// as resumable, so that it is not skipped silently; its lock refuses a second process.
bool meets(const fs::path& run_dir, RunNeeds needs);

/// Returns how a message describes a run that does not satisfy the requirement: "without a
/// checkpoint".
std::string unmet_text(RunNeeds needs);

/// Returns whether the folder is a run folder: it has config.resolved.yaml, or a checkpoint from
/// which that file can be restored.
bool is_run_folder(const fs::path& folder);

/// Returns whether the run has a checkpoint, even a damaged one, so that a run whose checkpoints
/// are all damaged is not skipped silently.
bool has_checkpoint(const fs::path& run_dir);

/// Returns the path of `best` or `last` of a run: the file NAME.safetensors next to its
/// checkpoints, or else the checkpoint that the link points to.
std::optional<fs::path> weights_named(const fs::path& run_dir, const std::string& name);

/// Returns why task.json of the run cannot be used; empty if it can, or does not exist.
std::string job_damage(const fs::path& run_dir);

/// Returns whether the folder belongs to a training run, not to an evaluation. If task.json is
/// damaged, a run with checkpoints counts as training.
bool is_training(const fs::path& run_dir);

/// resume: the fixed folder contains a run that is resumed.
enum class IfUsed { refuse, resume };

/// The folder that a run shall use, and what to do if it is already used.
struct FolderRequest {
  std::string name;                       // the experiment's name
  fs::path root = "runs";                 // --out
  std::optional<fs::path> fixed;          // --run-dir: use this folder instead of a new one
  IfLocked if_locked = IfLocked::refuse;  // for the fixed folder
  IfUsed if_used = IfUsed::refuse;        // for the fixed folder
  std::vector<fs::path> skipped = {};     // newer runs that cannot be resumed, see resumed_folder()
  std::string skipped_why = {};           // "without a checkpoint", see unmet_text()
};

/// A run's folder, locked as long as the object lives.
struct RunFolder {
  fs::path path;
  FolderLock lock;
};

/// Creates and locks the run's folder: runs/<name>/<utc_stamp()>/, and points the link
/// runs/<name>/latest at it. The returned path contains no links, because `latest` may point to
/// another run later. Throws Error(resource) when the root cannot be written or another run uses
/// the fixed folder, Error(config) when the fixed folder is not empty and is not to be resumed.
RunFolder make_run_folder(const FolderRequest& request);

/// Returns the folders in `parent` (runs or sweeps of one name), newest first: the folder that
/// `latest` points to, then by the time in the names. Links are left out. Empty if there are none.
std::vector<fs::path> newest_first(const fs::path& parent);

/// Returns the newest folder that make_run_folder() made for the request, if there is one.
std::optional<fs::path> newest_folder(const FolderRequest& request);

/// Returns the absolute path without links, "..", and a "/" at the end, also of a folder that does
/// not exist yet.
fs::path real_folder(const fs::path& folder);

/// Returns the JSON object in a file of a run folder; null if the file does not exist or holds no
/// object. Throws Error(resource) when the file cannot be read.
Json read_object(const fs::path& file);
/// Same as read_object(), but also returns null if the file cannot be read.
Json object_if_readable(const fs::path& file);

/// Returns the experiment's name as a single folder name: letters, digits, '.', '-', '_'.
std::string folder_name(const std::string& name);

struct RunSearch {
  std::optional<fs::path> run;    // the newest run that satisfies the requirement
  std::vector<fs::path> skipped;  // newer runs that do not
};

/// Searches the runs of an experiment below `root`, in the order of newest_first().
RunSearch newest_run(const fs::path& root, const std::string& name, RunNeeds needs);

/// The run that a word of the command line means.
struct NamedRun {
  fs::path folder;
  std::vector<fs::path> skipped;  // newer runs that do not satisfy the requirement
};

/// Returns the run folder that a word of the command line means: that folder itself; `latest` for
/// the newest run below `root`; `NAME` for the newest run of an experiment below `root`; or a
/// folder that contains runs, for the newest of them. Prefers the newest run that satisfies
/// `needs`, else returns the newest run. Returns nullopt if there is no run.
std::optional<NamedRun> lookup_run(const std::string& word, const fs::path& root,
                                   RunNeeds needs = RunNeeds::nothing);

/// Returns the folder that lookup_run() finds. Throws Error(config) that names what was searched.
fs::path find_run(const std::string& word, const fs::path& root);

/// A temporary folder for a job whose files were not requested. It is removed with this object,
/// unless keep() was called.
class ScratchFolder {
 public:
  /// Creates a folder in `parent`, and removes scratch folders there whose process was killed,
  /// which their stale `.lock` shows. Throws Error(resource) when `parent` cannot be written.
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

/// Returns the parent for scratch folders that need not be on a particular disk. Throws
/// Error(resource) when TMPDIR is not a folder.
fs::path temporary_folder();

/// Returns a sentence about each damaged file of a run folder among those that every start writes
/// again (task.json, result.json, manifest.json, config.resolved.yaml). Changes nothing. Throws
/// Error(resource).
std::vector<std::string> damaged_files(const fs::path& run_dir);

/// Moves the same files to corrupt-NAME and returns a sentence about each. The caller must hold the
/// lock of the folder and write these files next. Throws Error(resource).
std::vector<std::string> rename_damaged_files(const fs::path& run_dir);

/// Returns the text of config.resolved.yaml, or the copy in the newest checkpoint if that file is
/// missing or damaged. Returns nothing if there is neither.
std::optional<std::string> resolved_config_of(const fs::path& run_dir);

/// Writes config.resolved.yaml again from the newest checkpoint if it is missing or damaged, and
/// returns a sentence about it. Empty if the file was valid, if no checkpoint has a copy, or if
/// another process is training the run.
std::string restore_if_possible(const fs::path& run_dir);

/// Same, but throws Error(config) that names the folder if the file cannot be restored.
std::string restore_resolved_config(const fs::path& run_dir);

/// Returns sentences about damaged lines of metrics.jsonl and of the tables with a row per epoch. A
/// truncated last line is not reported as damage. Throws Error(resource).
std::vector<std::string> damaged_history(const fs::path& run_dir);

/// Removes unfinished files of a run's exited processes, also in subfolders: ".NAME.tmp.PID" and
/// ".NAME.reserved.PID", except those of this process, and checkpoints that were never committed.
/// The caller must hold the lock of the folder. Files that cannot be removed stay.
void remove_unfinished(const fs::path& run_dir);

}  // namespace trainctl::study
