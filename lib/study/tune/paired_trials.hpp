#pragma once

#include "base/clock.hpp"
#include "report/compare/bench.hpp"
#include "study/tune/candidates.hpp"

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
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

/// Two settings whose runs take turns: A B, B A, A B, ...
struct Comparison {
  report::TuneChanges base;
  report::TuneChanges other;
  TuneScope scope = TuneScope::lean;
  LossRule rule = LossRule::same;  // the loosest rule of the keys that differ
  double tolerance = 0;
};

/// The runs of a comparison so far; run i of one side is the pair of run i of the other.
struct ComparisonRuns {
  report::BenchRow base;
  report::BenchRow other;
  std::vector<double> base_s;  // for each sample
  std::vector<double> other_s;
  std::optional<TuneSample> last;              // of `other`
  std::optional<report::TrialFailure> failed;  // of either side
  bool base_failed = false;                    // the base was the side that failed

  [[nodiscard]] report::Speedup gain() const { return report::speedup(base_s, other_s); }
  /// The pairs of which both runs are over.
  [[nodiscard]] int pairs() const;
};

/// Returns the longest run of a side, with its start-up; 0: there is none.
double longest_s(const report::BenchRow& row);

/// Adds pairs of runs until there are `pairs` of them. Ends before where a run fails, or where the
/// losses or batches of the first pairs settle the comparison.
void run_pairs(const Comparison& comparison, int pairs, const RunTune& run, ComparisonRuns& runs);

/// The noise of a search: how far the gains of pairs of the same comparison lie apart. Pooling the
/// comparisons tells after two pairs of each what a single one tells only after many.
class PairNoise {
 public:
  /// Replaces what is known of the comparison of this name.
  void update(const std::string& name, const ComparisonRuns& runs);

  /// Returns the standard deviation of the logarithm of a pair's gain; nothing where no comparison
  /// has two pairs.
  [[nodiscard]] std::optional<double> deviation() const;
  /// Returns the 95 % interval of a comparison's gain by this noise, which needs no more than one
  /// pair of the comparison itself.
  [[nodiscard]] std::optional<report::Interval> interval(const ComparisonRuns& runs) const;
  /// Returns how many pairs in all are likely to decide whether a gain is worthwhile or negligible.
  [[nodiscard]] int pairs_to_decide(const ComparisonRuns& runs) const;

 private:
  struct Scatter {
    double squares = 0;
    double degrees = 0;
  };
  [[nodiscard]] Scatter pooled() const;

  std::map<std::string, Scatter> of_;
};

struct ComparisonRuling {
  report::Ruling ruling = report::Ruling::no_gain;
  std::string losses;
  std::string why;
};

/// Decides a comparison. It is accepted where the interval of the gain lies above 1.01 and the
/// losses are as `comparison.rule` demands. It is no gain where the interval by the noise of the
/// search lies below 1.03, or where a run of `other` was overdue; else noise leaves it unclear.
/// Where runs of the base differ among themselves, as on a GPU whose sums come in any order, the
/// tolerance applies instead of equal bits.
ComparisonRuling rule_on(const Comparison& comparison, const ComparisonRuns& runs,
                         const PairNoise& noise);

/// Whether every pair so far was faster by far, so that further pairs should follow at once.
bool is_obvious(const ComparisonRuns& runs);

/// What the command line asks of tune.
struct TuneWish {
  double budget_s = 300;
  double spent_s = 0;  // of it, before the search began
  int repeats = 5;     // pairs of runs for each change
  double tolerance = 1e-3;
  std::set<std::string> allowed{};
};

/// What the search needs of the world.
struct TuneTools {
  RunTuneWithin run;
  /// The experiment with these changes, or why it does not take them.
  std::function<std::variant<spec::Experiment, std::string>(const report::TuneChanges&)> check;
  /// Why its steps cannot be recorded as CUDA graphs; empty: they can.
  std::function<std::string(const spec::Experiment&)> no_capture;
  std::function<std::optional<int>()> stopped;  // exit code of a signal between two runs
  std::function<void(const std::string&)> say;
  const Clock& clock;
};

/// Runs the comparisons of a search within its budget.
class PairedTrials {
 public:
  /// The budget runs from now on.
  PairedTrials(const TuneWish& wish, const TuneTools& tools)
      : wish_(wish), tools_(tools), began_(tools.clock.now()) {}

  /// Sets how long one run of the experiment as it is takes.
  void start(double run_s) { run_s_ = original_s_ = run_s; }
  /// Sets what changes are compared with from now on, and how long one run of it takes.
  void rebase(const report::TuneChanges& base, double run_s) {
    base_ = base;
    run_s_ = run_s;
  }
  [[nodiscard]] const report::TuneChanges& base() const { return base_; }

  /// Adds pairs of runs until there are `pairs` of them. No run of the change goes on for more than
  /// three times as long as the base, and none at all beyond the budget: then is_late() is true,
  /// and the pairs before remain.
  void run(const Comparison& comparison, int pairs, ComparisonRuns& runs);
  /// Whether the end of the budget cut a run off.
  [[nodiscard]] bool is_late() const { return is_late_; }

  [[nodiscard]] double used_s() const { return wish_.spent_s + tools_.clock.now() - began_; }
  [[nodiscard]] double left_s() const { return wish_.budget_s - used_s(); }
  /// Returns what one pair takes.
  [[nodiscard]] double pair_s() const { return 2 * run_s_; }
  /// Returns what a proof of so many pairs takes: a comparison with the original.
  [[nodiscard]] double proof_s(int pairs) const { return 2 * pairs * original_s_; }
  /// Returns how many pairs fit into the budget if `reserve_s` of it has to remain.
  [[nodiscard]] int affordable_pairs(double reserve_s) const;
  /// Returns how many pairs of a proof fit into what is left of the budget.
  [[nodiscard]] int proof_pairs() const;

 private:
  const TuneWish& wish_;
  const TuneTools& tools_;
  double began_;
  double run_s_ = 0;       // of what changes are compared with
  double original_s_ = 0;  // of the experiment as it is
  report::TuneChanges base_;
  bool is_late_ = false;
};

}  // namespace trainctl::study
