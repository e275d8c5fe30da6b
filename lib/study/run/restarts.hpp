#pragma once

#include "report/record/run_result.hpp"
#include "study/resume/resume.hpp"

#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace trainctl::study
