#pragma once

#include "checkpoint/manifest.hpp"
#include "study/folder/run_folder.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// automatic: the newest checkpoint, or the beginning; path: a run folder or a checkpoint's.
enum class ResumeFrom { automatic, last, best, path };

/// What becomes of a run whose data is not that of its checkpoint.
enum class IfDataChanged { refuse, restart_epoch };

/// What `--resume` asks for.
struct ResumeWish {
  ResumeFrom from = ResumeFrom::automatic;
  fs::path path = {};  // absolute
  IfDataChanged if_data_changed = IfDataChanged::refuse;
};

/// "auto", "last" and "best"; anything else is a path.
ResumeWish parse_resume(const std::string& text);

/// The request with the folder in which the run goes on: the one that `--run-dir` names, the one
/// that the path lies in, or that of the newest run of that name that can be resumed; `skipped`
/// names the newer ones. The folder has no links. As it was where `auto` finds none, or where a
/// checkpoint's path meets a
/// `--run-dir` elsewhere: then a new run starts from it. Throws Error(checkpoint) where there is
/// nothing to resume, Error(config) where the folder is not that of a training run.
FolderRequest resumed_folder(const FolderRequest& asked, const ResumeWish& wish);

/// The run folder that a path means, its own or that of a checkpoint. Throws Error(config) where
/// the wish is none or the path means none.
fs::path run_folder_of(const ResumeWish& wish);

/// Where a run goes on.
struct Origin {
  fs::path checkpoint;  // absolute; empty: at the first step
  checkpoint::Manifest manifest;
  std::vector<std::string> damaged;  // newer ones: name, what is wrong, where it lies now
};

/// The checkpoint of `run_dir` that the wish means, verified. Damaged ones are moved aside and
/// named. Throws Error(checkpoint) where there is none, or none is whole, or it has weights only.
Origin choose_checkpoint(const fs::path& run_dir, const ResumeWish& wish);

/// One line for people: which run resumes, from which checkpoint, or that training starts from
/// scratch. `folder` is what resumed_folder() returned, `run_dir` the folder that was made of it.
std::string resume_notice(const FolderRequest& folder, const fs::path& run_dir,
                          const Origin& origin);

/// loader.batch_size of the run that goes on, for an experiment that says `auto`; nothing where no
/// run does.
std::optional<std::int64_t> resumed_batch(const FolderRequest& asked, const ResumeWish& wish);

/// No run can go on from it.
bool has_weights_only(const checkpoint::Manifest& manifest);

}  // namespace trainctl::study
