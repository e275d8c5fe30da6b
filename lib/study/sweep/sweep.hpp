#pragma once

#include "base/clock.hpp"
#include "study/sweep/ledger.hpp"
#include "study/sweep/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

enum class OnFailure { keep_going, fail_fast };

/// How the runs of a ledger are made.
struct SweepPlan {
  fs::path folder;  // absolute: the ledger's; runs/ and logs/ are below it
  Ranking ranking;
  std::vector<std::int64_t> rungs;  // epochs at which runs are judged; one: each runs to its end
  int eta = 3;
  int jobs = 1;  // side by side
  int retries = 1;
  OnFailure on_failure = OnFailure::keep_going;
};

/// One start of a run.
struct SweepJob {
  std::int64_t number = 0;
  std::uint64_t seed = 0;
  report::Overrides overrides;
  fs::path run_dir;
  std::optional<std::int64_t> until_epoch;  // absent: to its end
};

/// A run of the sweep in a process of its own.
class JobProcess {
 public:
  virtual ~JobProcess() = default;
  /// Its exit code once it has ended, 128 and the signal where one ended it; nothing before.
  virtual std::optional<int> ended() = 0;
  virtual void signal(int number) = 0;
};

/// What the loop cannot do by itself.
struct SweepHooks {
  std::function<std::unique_ptr<JobProcess>(const SweepJob& job)> start;
  /// Waits for a signal, the end of a child or so many seconds; the stop signals that came.
  std::function<std::vector<int>(double seconds)> wait;
  /// After runs have ended or moved on, as the ledger knows them now.
  std::function<void(std::span<const LedgerRun> runs)> told;
  const Clock& clock;
};

struct SweepEnd {
  std::optional<int> signal;  // that ended it
  bool failed_fast = false;
};

/// "0007".
std::string run_id(std::int64_t number);
fs::path run_folder(const fs::path& sweep, std::int64_t number);

/// Makes the runs of the ledger's definition that are not done. A run that the ledger has as
/// running was left by a sweep that was killed: where its folder tells how it ended, that is taken
/// over, else it goes on from its newest checkpoint. What lacked resources (exit code 11, or it or
/// a rank of it killed by SIGKILL) is tried again after a pause, with one run less side by side;
/// each run that ends well takes one of these back. A stop signal reaches the runs as SIGTERM, so
/// that they save; a second one kills them. Throws Error(resource) where a run that was left still
/// lives, or the ledger fails.
SweepEnd run_sweep(Ledger& ledger, const SweepPlan& plan, const SweepHooks& hooks);

/// Whether nothing is left to do.
bool is_finished(const std::vector<LedgerRun>& runs);

/// Pauses after an error of resources.
inline constexpr double kRetryPauseS = 3;

}  // namespace trainctl::study
