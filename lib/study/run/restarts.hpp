#pragma once

#include "report/record/run_result.hpp"
#include "study/resume/resume.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// Decides whether a failed run is restarted: only after exit codes 7 and 8, at most `most` times,
/// and not after three restarts in a row without a newer checkpoint. The class has no side effects.
class RestartPolicy {
 public:
  enum class Decision { stop, restart, no_progress };
  static constexpr int kMostIdle = 3;

  /// `step` is the global step of the checkpoint that the run starts from.
  explicit RestartPolicy(int most, std::optional<std::int64_t> step = {})
      : most_(most), newest_(step) {}

  /// Returns whether a restart can help after this exit code.
  static bool can_help(int exit_code);
  /// Decides after an attempt; `newest` is the global step of the newest valid checkpoint.
  Decision after(int exit_code, std::optional<std::int64_t> newest);
  /// Restarts the comparison of steps, because the next attempt starts at step 0 again.
  void reset_progress() {
    newest_.reset();
    idle_ = 0;
  }
  [[nodiscard]] int made() const { return made_; }
  [[nodiscard]] int most() const { return most_; }

 private:
  int most_;
  int made_ = 0;
  int idle_ = 0;  // consecutive restarts without a newer checkpoint
  std::optional<std::int64_t> newest_;
};

/// Chooses the restarts of one run in its folder. run_experiment() owns it.
class Restarts {
 public:
  /// `most` is trainer.max_restarts; `origin` is where the run starts.
  Restarts(int most, fs::path run_dir, const ResumeOrigin& origin);

  /// Decides whether the run is restarted after an attempt, and sets the exit code to 93 if
  /// restarts make no progress. Must be called before the ending is written. `again` is the origin
  /// of an attempt that ended before it could resume, and the next attempt starts from there; if it
  /// is null, the next attempt starts from the newest checkpoint.
  void decide(report::RunResult& ending, const ResumeOrigin* again);
  /// Returns the origin of the next attempt; nullopt if there is no further attempt.
  [[nodiscard]] const std::optional<ResumeOrigin>& next() const { return next_; }
  /// Returns why the run is restarted and from which checkpoint; empty before the first restart.
  [[nodiscard]] const std::string& notice() const { return notice_; }
  /// The next attempt starts at the first step with other settings; the restart budget is not
  /// reset.
  void reset_progress() { policy_.reset_progress(); }

 private:
  [[nodiscard]] std::optional<ResumeOrigin> choose() const;

  fs::path run_dir_;
  RestartPolicy policy_;
  std::optional<ResumeOrigin> next_;
  std::string notice_;
};

/// The attempts of a run that `trainer.on_divergence` starts again with other overrides. The files
/// of a finished attempt move to attempt-N/ below the run folder, where N is the next free number,
/// so the folder itself always holds the newest attempt.
class Attempts {
 public:
  /// beginning: at the first step
  enum class StartFrom { beginning, checkpoint };

  /// `request` must outlive this object. If the request resumes, the attempts that result.json of
  /// the folder lists are counted. Throws Error(resource).
  Attempts(const RunRequest& request, fs::path folder);

  /// Returns the request to run first: the original one with the overrides of the attempt that is
  /// resumed. Throws Error when these overrides do not fit the experiment.
  [[nodiscard]] RunRequest current() const;
  /// Returns whether another attempt follows one that ended like this.
  [[nodiscard]] bool has_next(const report::RunResult& ending) const;
  /// Returns the request of the attempt that follows one that ended like this: the original request
  /// with the next overrides, from the first step. Returns nullopt if the run does not train, did
  /// not diverge, or no overrides are left. Throws Error when the overrides do not fit the
  /// experiment, or when the folder cannot be cleared.
  std::optional<RunRequest> after(const report::RunResult& ending);

  [[nodiscard]] bool is_another() const { return !past_.empty(); }
  /// Returns the reason for this attempt and the values that it changes.
  [[nodiscard]] std::string notice(StartFrom start_from) const;
  /// Returns all attempts, the last one with this ending; empty if `trainer.on_divergence` lists no
  /// overrides.
  [[nodiscard]] std::vector<report::Attempt> with_last(const report::RunResult& ending) const;

 private:
  [[nodiscard]] report::Attempt record_of(const report::RunResult& ending) const;
  [[nodiscard]] RunRequest changed(const std::vector<std::string>& changes) const;
  [[nodiscard]] std::string move_files() const;

  const RunRequest& request_;
  fs::path folder_;
  std::vector<std::string> changes_;  // overrides of the current attempt
  std::vector<report::Attempt> past_;
};

}  // namespace trainctl::study
