#include "study/resume/resume.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"
#include "report/record/run_files.hpp"
#include "spec/experiment/job.hpp"
#include "study/resume/config_changes.hpp"

#include <system_error>

namespace trainctl::study {
namespace {

constexpr const char* kCheckpoints = "checkpoints";

bool is_checkpoint(const fs::path& path) {
  return path_exists(path / checkpoint::kManifestName) ||
         checkpoint::parse_folder_name(path.filename().string()).has_value();
}

std::optional<fs::path> run_of(const fs::path& checkpoint) {
  const fs::path parent = checkpoint.parent_path();
  if (parent.filename() != kCheckpoints) return std::nullopt;
  return parent.parent_path();
}

FolderRequest resume_in(FolderRequest requested, const fs::path& run_dir) {
  requested.fixed = real_folder(run_dir);  // `latest` may point to another run later
  requested.if_used = IfUsed::resume;
  return requested;
}

/// Returns the unchanged request if no run of that name can be resumed.
FolderRequest newest_resumable(const FolderRequest& requested, ResumeFrom from) {
  const RunNeeds needs = from == ResumeFrom::best ? RunNeeds::resumable_best : RunNeeds::resumable;
  RunSearch search = newest_run(requested.root, requested.name, needs);
  FolderRequest folder = search.run ? resume_in(requested, *search.run) : requested;
  folder.skipped = std::move(search.skipped);
  folder.skipped_why = unmet_text(needs);
  ENSURE(checkpoint, folder.fixed || from == ResumeFrom::automatic,
         "no run of '{}' in {} has a checkpoint {}\nhint: use --resume auto, which starts from "
         "scratch if there is no checkpoint",
         printable(requested.name), printable(requested.root.string()),
         from == ResumeFrom::best ? "'best'" : "to resume from");
  return folder;
}

/// Returns whether the file can exist in a run that was killed in its first milliseconds.
bool may_precede_training(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  if (name == "result.json")  // each run writes it first
    return report::member(object_if_readable(path), "verdict") == "unfinished";
  if (name == "logs") return is_folder(path) && fs::is_empty(path, ignored);
  const bool is_temporary =
      name.find(".tmp.") != std::string::npos || name.find(".reserved.") != std::string::npos;
  return name.starts_with(FolderLock::kFileName) || (name.starts_with('.') && is_temporary);
}

void expect_training_run(const fs::path& run_dir) {
  const std::string shown = printable(run_dir.string());
  const bool is_new = std::ranges::all_of(paths_in(run_dir), may_precede_training);
  ENSURE(config, is_new || is_run_folder(run_dir) || path_exists(run_dir / kCheckpoints),
         "cannot resume {}: it is not empty and not a run folder", shown);
  if (is_training(run_dir)) return;
  const std::string damage = job_damage(run_dir);
  ENSURE(config, damage.empty(),
         "cannot resume {}: its {} is damaged ({}) and it has no checkpoints\nhint: remove the "
         "folder, or choose another --run-dir",
         shown, spec::kJobFile, damage);
  THROW(config, "cannot resume {}: it is an evaluation, not a training run", shown);
}

FolderRequest folder_of_path(const FolderRequest& requested, const fs::path& path) {
  std::error_code failure;
  const fs::path found = fs::canonical(path, failure);
  ENSURE(checkpoint, !failure,
         "cannot resume from {}: it does not exist\nhint: use auto, last, best, a folder or a run "
         "name",
         printable(path.string()));
  ENSURE(
      checkpoint, fs::is_directory(found, failure),
      "cannot resume from {0}: it is a file, not the folder of a checkpoint or run\nhint: start a "
      "new run from its weights with weights={0}",
      printable(path.string()));
  if (!is_checkpoint(found)) {
    ENSURE(config, !requested.fixed || fs::equivalent(*requested.fixed, found, failure),
           "--resume {} and --run-dir {} are different folders\nhint: omit one of them",
           printable(path.string()), printable(requested.fixed->string()));
    return resume_in(requested, found);
  }
  const std::optional<fs::path> run = run_of(found);
  const bool elsewhere =
      requested.fixed && (!run || !fs::equivalent(*requested.fixed, *run, failure) || failure);
  if (elsewhere) return requested;
  ENSURE(checkpoint, run.has_value(),
         "cannot resume from {}: the checkpoint is not in a run folder\nhint: set the folder of "
         "the new run with --run-dir",
         printable(path.string()));
  return resume_in(requested, *run);
}

ResumeOrigin origin_at(const fs::path& checkpoint) {
  ResumeOrigin origin{fs::canonical(checkpoint), checkpoint::read_manifest(checkpoint), {}};
  ENSURE(checkpoint, !has_weights_only(origin.manifest),
         "cannot resume from {}: it contains weights only (checkpoint.save_weights_only)",
         printable(checkpoint.string()));
  return origin;
}

ResumeOrigin verified_at(const fs::path& checkpoint) {
  checkpoint::verify(checkpoint);
  return origin_at(checkpoint);
}

ResumeOrigin newest_in(const fs::path& run_dir, bool is_required) {
  checkpoint::Store store(run_dir / kCheckpoints);
  std::vector<std::string> damaged;
  const auto add_damaged = [&](const fs::path& moved, const std::string& why) {
    const std::string name = moved.filename().string();
    const bool is_renamed = name.starts_with(checkpoint::kQuarantinePrefix);  // else `why` says it
    damaged.push_back(fmt::format("a checkpoint is damaged: {}{}", why,
                                  is_renamed ? "; renamed to " + printable(name) : ""));
  };
  const std::optional<fs::path> newest = store.newest_valid(add_damaged);
  ENSURE(checkpoint, newest || !is_required,
         "there is no checkpoint in {}\nhint: start from scratch with --resume auto",
         printable((run_dir / kCheckpoints).string()));
  ResumeOrigin origin = newest ? origin_at(*newest) : ResumeOrigin{};
  if (newest && !damaged.empty())
    damaged.back() += fmt::format("; using {}", newest->filename().string());
  origin.damaged = std::move(damaged);
  return origin;
}

/// Never falls back to another checkpoint, because a user who asks for the best one does not want
/// the newest.
ResumeOrigin best_in(const fs::path& run_dir) {
  const auto best = checkpoint::Store(run_dir / kCheckpoints).pointed(checkpoint::Link::best);
  ENSURE(checkpoint, best.has_value(), "{} has no checkpoint 'best'\nhint: use --resume last",
         printable((run_dir / kCheckpoints).string()));
  return verified_at(*best);
}

}  // namespace

bool has_weights_only(const checkpoint::Manifest& manifest) {
  const auto fact = manifest.facts.find("weights_only");
  return fact != manifest.facts.end() && fact->second == "true";
}

ResumeRequest parse_resume(const std::string& text) {
  if (text == "auto") return {.from = ResumeFrom::automatic};
  if (text == "last") return {.from = ResumeFrom::last};
  if (text == "best") return {.from = ResumeFrom::best};
  ENSURE(config, !text.empty(),
         "--resume must be auto, last, best, a folder or a run name, got ''");
  return {.from = ResumeFrom::path, .path = fs::absolute(text).lexically_normal()};
}

fs::path run_folder_of(const ResumeRequest& resume) {
  ENSURE(config, resume.from == ResumeFrom::path,
         "no experiment file is given\nhint: name it as CONFIG, or name the folder of the run with "
         "--run-dir");
  return *folder_of_path({}, resume.path).fixed;
}

FolderRequest resumed_folder(const FolderRequest& requested, const ResumeRequest& resume) {
  FolderRequest folder = requested;
  if (resume.from == ResumeFrom::path) {
    folder = folder_of_path(requested, resume.path);
  } else if (requested.fixed) {
    folder = resume_in(requested, *requested.fixed);
  } else {
    folder = newest_resumable(requested, resume.from);
  }
  if (folder.if_used == IfUsed::resume) expect_training_run(*folder.fixed);
  return folder;
}

std::string resume_notice(const FolderRequest& folder, const fs::path& run_dir,
                          const ResumeOrigin& origin) {
  const std::string shown = printable(run_dir.string());
  std::string skipped;
  if (!folder.skipped.empty())
    skipped = fmt::format("; skipped {} newer {} {}: {}", folder.skipped.size(),
                          folder.skipped.size() == 1 ? "run" : "runs", folder.skipped_why,
                          printable(folder.skipped.front().string()));
  if (!origin.checkpoint.empty() && folder.if_used == IfUsed::resume)
    return fmt::format("resuming {} from checkpoint {}{}", shown,
                       origin.checkpoint.filename().string(), skipped);
  if (!origin.checkpoint.empty())
    return fmt::format("starting {} from checkpoint {}", shown,
                       printable(origin.checkpoint.string()));
  if (folder.if_used == IfUsed::resume)
    return fmt::format("{} has no checkpoint: training starts from scratch", shown);
  return fmt::format(
      "no run of '{}' in {} has a checkpoint to resume from: training starts from scratch in {}",
      printable(folder.name), printable(folder.root.string()), shown);
}

ResumeOrigin choose_checkpoint(const fs::path& run_dir, const ResumeRequest& resume) {
  switch (resume.from) {
    case ResumeFrom::automatic: return newest_in(run_dir, false);
    case ResumeFrom::last: return newest_in(run_dir, true);
    case ResumeFrom::best: return best_in(run_dir);
    case ResumeFrom::path: break;
  }
  const fs::path found = fs::canonical(resume.path);
  return is_checkpoint(found) ? verified_at(found) : newest_in(run_dir, true);
}

std::optional<std::int64_t> resumed_batch(const FolderRequest& requested,
                                          const ResumeRequest& resume) {
  const FolderRequest folder = resumed_folder(requested, resume);
  if (folder.if_used != IfUsed::resume) return std::nullopt;
  const std::optional<std::string> config = resolved_config_of(*folder.fixed);
  return config ? resolved_number(*config, "loader.batch_size") : std::nullopt;
}

}  // namespace trainctl::study
