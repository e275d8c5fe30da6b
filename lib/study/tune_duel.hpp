#pragma once

#include "report/bench.hpp"
#include "study/tune_rules.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

/// What a run is to have beside its training: lean runs neither validate nor save.
enum class TuneScope { lean, whole };

/// What runs of these changes need, so that they tell in what they differ.
TuneScope scope_of(const report::TuneChanges& changes);

/// What one short run told.
struct TuneSample {
  report::Trial trial;
  double sample_s = 0;  // wall seconds of its steady epochs for each training sample
  report::TuneVerdict verdict;
  TuneFacts facts;
};
using TuneResult = std::variant<TuneSample, report::TrialFailure>;
inline constexpr double kNoLimitS = std::numeric_limits<double>::infinity();

/// Makes one short run of the experiment with these changes, in fresh processes.
using RunTune = std::function<TuneResult(const report::TuneChanges& changes, TuneScope scope)>;
/// The same, killed after so many seconds: the failure is overdue then.
using RunTuneWithin =
    std::function<TuneResult(const report::TuneChanges& changes, TuneScope scope, double most_s)>;

/// Two settings, run in turns: A B, B A, A B, ...
struct Duel {
  report::TuneChanges base;
  report::TuneChanges other;
  TuneScope scope = TuneScope::lean;
  LossRule rule = LossRule::same;  // the loosest of what differs
  double tolerance = 0;
};

/// What came of it so far; run i of one is the pair of run i of the other.
struct DuelRuns {
  report::BenchRow base;
  report::BenchRow other;
  std::vector<double> base_s;  // for each sample
  std::vector<double> other_s;
  std::optional<TuneSample> last;              // of `other`
  std::optional<report::TrialFailure> failed;  // of either
  bool base_failed = false;                    // it was that of the base

  [[nodiscard]] report::Speedup gain() const { return report::speedup(base_s, other_s); }
};

/// The longest run of a side, with its start-up; 0: there is none.
double longest_s(const report::BenchRow& row);

/// Adds pairs of runs until there are `pairs` of them. Ends before where a run fails, where the
/// losses or batches of the first pairs settle it, or where neither of the first two pairs was any
/// faster: that costs a gain at times, and never makes one.
void run_pairs(const Duel& duel, int pairs, const RunTune& run, DuelRuns& runs);

struct DuelRuling {
  report::Ruling ruling = report::Ruling::no_gain;
  std::string losses;
  std::string why;
};

/// Accepted where the interval of the gain lies above 1.01 and the losses are as `duel.rule` asks;
/// an overdue run of `duel.other` is no gain. Where runs of the base differ among themselves, as on
/// a GPU whose sums come in any order, the tolerance stands for equal bits.
DuelRuling judge(const Duel& duel, const DuelRuns& runs);

}  // namespace trainctl::study
