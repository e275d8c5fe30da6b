#pragma once

#include "report/record/run_result.hpp"
#include "study/resume/resume.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// Whether a run that ended so is started again: exit codes 7 and 8 only, `most` times in all, and
/// not once three restarts in a row have brought no newer checkpoint. Arithmetic alone.
class RestartPolicy {
 public:
  enum class Answer { over, again, no_progress };
  static constexpr int kMostIdle = 3;

  /// `step`: of the checkpoint that the run begins with.
  explicit RestartPolicy(int most, std::optional<std::int64_t> step = {})
      : most_(most), newest_(step) {}

  /// Codes after which another start may end better.
  static bool may_help(int exit_code);
  /// `newest`: global step of the newest checkpoint that is whole.
  Answer after(int exit_code, std::optional<std::int64_t> newest);
  /// The steps of what follows are counted from the beginning.
  void forget_progress() {
    newest_.reset();
    idle_ = 0;
  }
  [[nodiscard]] int made() const { return made_; }
  [[nodiscard]] int most() const { return most_; }

 private:
  int most_;
  int made_ = 0;
  int idle_ = 0;  // restarts in a row that ended without a newer checkpoint
  std::optional<std::int64_t> newest_;
};

/// The restarts of one run in its folder.
class Restarts {
 public:
  Restarts(int most, fs::path run_dir, const Origin& origin);

  /// Decides after an attempt; exit code 93 takes the place of its own where nothing moves. To be
  /// called before the ending is written. `again`: where the attempt was to go on and did not get
  /// to it; the next one goes on there, too. Null: from the newest checkpoint.
  void judge(report::Ending& ending, const Origin* again);
  /// Where the next attempt goes on; nothing where there is none.
  [[nodiscard]] const std::optional<Origin>& next() const { return next_; }
  /// Why there is one, and where it goes on; empty for the first.
  [[nodiscard]] const std::string& notice() const { return notice_; }
  /// What follows begins at the first step, with other settings; the budget stays.
  void begin_anew() { policy_.forget_progress(); }

 private:
  [[nodiscard]] std::optional<Origin> choose() const;

  fs::path run_dir_;
  RestartPolicy policy_;
  std::optional<Origin> next_;
  std::string notice_;
};

/// The attempts of a run that `trainer.on_divergence` starts again. What an attempt left moves to
/// attempt-N/ below the run folder, N a number that is free, so that the folder itself is always
/// that of the newest one.
class Attempts {
 public:
  /// later: at a checkpoint.
  enum class Begins { anew, later };

  /// `request` outlives it. Where it resumes, attempts that result.json of the folder tells of
  /// count. Throws Error(resource).
  Attempts(const RunRequest& request, fs::path folder);

  /// What to run first: as asked for, with the overrides of the attempt that goes on. Throws Error
  /// where these do not fit.
  [[nodiscard]] RunRequest current() const;
  /// Whether there is anything to run after an attempt that ended so.
  [[nodiscard]] bool has_next(const report::Ending& ending) const;
  /// What to run after an attempt that ended so, from its beginning: as first asked for, with the
  /// next overrides. Nothing where it does not train, did not diverge, or nothing is left to try.
  /// Throws Error where the overrides do not fit, or the folder cannot be cleared.
  std::optional<RunRequest> after(const report::Ending& ending);

  [[nodiscard]] bool is_another() const { return !past_.empty(); }
  /// Why there is another attempt, and what it changes.
  [[nodiscard]] std::string notice(Begins begins) const;
  /// All attempts where this one ended so; empty where there is nothing to fall back on.
  [[nodiscard]] std::vector<report::Attempt> with_last(const report::Ending& ending) const;

 private:
  [[nodiscard]] report::Attempt told(const report::Ending& ending) const;
  [[nodiscard]] RunRequest changed(const std::vector<std::string>& changes) const;
  [[nodiscard]] std::string put_aside() const;

  const RunRequest& request_;
  fs::path folder_;
  std::vector<std::string> changes_;  // of the attempt that runs
  std::vector<report::Attempt> past_;
};

}  // namespace trainctl::study
