#pragma once

#include "checkpoint/manifest.hpp"
#include "study/folder/run_folder.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// automatic: the newest checkpoint, or the first step; path: a run folder or a checkpoint.
enum class ResumeFrom { automatic, last, best, path };

/// What to do if a run's data differs from the data of its checkpoint.
enum class IfDataChanged { refuse, restart_epoch };

/// The arguments of `--resume`.
struct ResumeRequest {
  ResumeFrom from = ResumeFrom::automatic;
  fs::path path = {};  // absolute
  IfDataChanged if_data_changed = IfDataChanged::refuse;
};

/// Parses "auto", "last" and "best"; any other text is a path.
ResumeRequest parse_resume(const std::string& text);

/// Returns the request with the folder of the run to resume: the one that `--run-dir` names, the
/// one that contains the path, or that of the newest resumable run of that name; `skipped` lists
/// the newer runs. The folder has no links. The request is unchanged if `auto` finds no run, or if
/// the path is a checkpoint outside the given `--run-dir`, from which a new run starts. Throws
/// Error(checkpoint) when there is nothing to resume, Error(config) when the folder does not belong
/// to a training run.
FolderRequest resumed_folder(const FolderRequest& requested, const ResumeRequest& resume);

/// Returns the run folder that a path means: the path itself or the run of a checkpoint. Throws
/// Error(config) when the request has no path or the path is not in a run folder.
fs::path run_folder_of(const ResumeRequest& resume);

/// Where a run starts or resumes.
struct ResumeOrigin {
  fs::path checkpoint;  // absolute; empty: the first step
  checkpoint::Manifest manifest;
  std::vector<std::string> damaged;  // damaged newer checkpoints: name, problem, new location
};

/// Returns the checkpoint of `run_dir` that the request means, after verification. Damaged
/// checkpoints are renamed and listed. Throws Error(checkpoint) when no checkpoint exists, when
/// none is valid, or when it has only weights.
ResumeOrigin choose_checkpoint(const fs::path& run_dir, const ResumeRequest& resume);

/// Returns one line for people: which run resumes from which checkpoint, or that training starts
/// from scratch. `folder` is the result of resumed_folder(), `run_dir` the folder created from it.
std::string resume_notice(const FolderRequest& folder, const fs::path& run_dir,
                          const ResumeOrigin& origin);

/// Returns loader.batch_size of the run to resume, for an experiment with `auto`; nullopt if no run
/// is resumed.
std::optional<std::int64_t> resumed_batch(const FolderRequest& requested,
                                          const ResumeRequest& resume);

bool has_weights_only(const checkpoint::Manifest& manifest);

}  // namespace trainctl::study
