#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>

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

}  // namespace trainctl::study
