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

/// What a run does in addition to training: lean runs neither validate nor save.
enum class TuneScope { lean, whole };

/// Returns the scope in which the effect of these changes can be measured.
TuneScope scope_of(const report::TuneChanges& changes);

/// The measurements of one short run.
struct TuneSample {
  report::Trial trial;
  double sample_s = 0;  // wall seconds per training sample in the steady epochs
  report::TuneVerdict verdict;
  TuneFacts facts;
};
using TuneResult = std::variant<TuneSample, report::TrialFailure>;
inline constexpr double kNoLimitS = std::numeric_limits<double>::infinity();

/// Makes one short run of the experiment with these changes, in new processes.
using RunTune = std::function<TuneResult(const report::TuneChanges& changes, TuneScope scope)>;
/// The same with a time limit of `most_s` seconds, after which the run is killed and its failure is
/// marked overdue.
using RunTuneWithin =
    std::function<TuneResult(const report::TuneChanges& changes, TuneScope scope, double most_s)>;

/// Two settings whose runs alternate: A B, B A, A B, ...
struct Comparison {
  report::TuneChanges base;
  report::TuneChanges other;
  TuneScope scope = TuneScope::lean;
  LossRule rule = LossRule::same;  // the least strict rule of the keys that differ
  double tolerance = 0;
};

/// The runs of a comparison so far; run i of one setting is paired with run i of the other.
struct ComparisonRuns {
  report::BenchRow base;
  report::BenchRow other;
  std::vector<double> base_s;  // seconds per sample
  std::vector<double> other_s;
  std::optional<TuneSample> last;              // the last run of `other`
  std::optional<report::TrialFailure> failed;  // of either setting
  bool base_failed = false;                    // the failed run belongs to the base

  [[nodiscard]] report::Speedup gain() const { return report::speedup(base_s, other_s); }
  /// Returns the number of pairs whose two runs have both finished.
  [[nodiscard]] int pairs() const;
};

/// Returns the duration of the longest run of a setting with its startup, in seconds; 0 if there is
/// no run.
double longest_s(const report::BenchRow& row);

/// Adds pairs of runs until there are `pairs` of them. Stops earlier when a run fails, or when the
/// losses or batches of the first pairs settle the comparison.
void run_pairs(const Comparison& comparison, int pairs, const RunTune& run, ComparisonRuns& runs);

/// The noise of a search: the spread of the gains of pairs in the same comparison. Pooling all
/// comparisons estimates the noise after two pairs of each, where a single comparison would need
/// many.
class PairNoise {
 public:
  /// Replaces the data of the comparison with this name.
  void update(const std::string& name, const ComparisonRuns& runs);

  /// Returns the standard deviation of the logarithm of a pair's gain; nullopt if no comparison has
  /// two pairs.
  [[nodiscard]] std::optional<double> deviation() const;
  /// Returns the 95 % interval of a comparison's gain from the pooled noise; one pair of the
  /// comparison is enough.
  [[nodiscard]] std::optional<report::Interval> interval(const ComparisonRuns& runs) const;
  /// Returns the total number of pairs that are likely to show whether a gain is worthwhile or
  /// negligible.
  [[nodiscard]] int pairs_to_decide(const ComparisonRuns& runs) const;

 private:
  struct Scatter {
    double squares = 0;
    double degrees = 0;
  };
  [[nodiscard]] Scatter pooled() const;

  std::map<std::string, Scatter> scatters_;
};

/// The decision about a comparison, with the comparison of the losses and the reason.
struct ComparisonRuling {
  report::TuneDecision ruling = report::TuneDecision::no_gain;
  std::string losses;
  std::string why;
};

/// Decides a comparison. A change is accepted if the interval of its gain lies above 1.01 and the
/// losses satisfy `comparison.rule`. It has no gain if the interval from the pooled noise lies
/// below 1.03, or if a run of `other` was overdue; otherwise the noise leaves it unclear. If runs
/// of the base differ from each other, as on a GPU with a nondeterministic order of sums, the
/// tolerance applies instead of bitwise equality.
ComparisonRuling rule_on(const Comparison& comparison, const ComparisonRuns& runs,
                         const PairNoise& noise);

/// Returns whether every pair so far was so much faster that further pairs should follow at once.
bool is_obvious(const ComparisonRuns& runs);

/// The command-line options of tune.
struct TuneOptions {
  double budget_s = 300;
  double spent_s = 0;  // seconds of the budget that were used before the search started
  int repeats = 5;     // pairs of runs for each change
  double tolerance = 1e-3;
  std::set<std::string> allowed{};
};

/// The functions that the search calls for its side effects.
struct TuneTools {
  RunTuneWithin run;
  /// Returns the experiment with these changes, or why it does not accept them.
  std::function<std::variant<spec::Experiment, std::string>(const report::TuneChanges&)> check;
  /// Returns why the steps cannot be recorded as CUDA graphs; empty if they can.
  std::function<std::string(const spec::Experiment&)> no_capture;
  std::function<std::optional<int>()> stopped;  // exit code for a signal that came between two runs
  std::function<void(const std::string&)> say;
  const Clock& clock;
};

/// Runs the comparisons of a search within its time budget.
class PairedTrials {
 public:
  /// The budget starts now.
  PairedTrials(const TuneOptions& options, const TuneTools& tools)
      : options_(options), tools_(tools), began_(tools.clock.now()) {}

  /// Sets the duration of one run of the unchanged experiment, in seconds.
  void start(double run_s) { run_s_ = original_s_ = run_s; }
  /// Sets the changes to compare with from now on, and the duration of one run of them.
  void rebase(const report::TuneChanges& base, double run_s) {
    base_ = base;
    run_s_ = run_s;
  }
  [[nodiscard]] const report::TuneChanges& base() const { return base_; }

  /// Adds pairs of runs until there are `pairs` of them. A run of the change is killed after three
  /// times the duration of the base, and no run exceeds the budget: then is_late() is true, and the
  /// earlier pairs remain valid.
  void run(const Comparison& comparison, int pairs, ComparisonRuns& runs);
  /// Returns whether the end of the budget interrupted a run.
  [[nodiscard]] bool is_late() const { return is_late_; }

  [[nodiscard]] double used_s() const { return options_.spent_s + tools_.clock.now() - began_; }
  [[nodiscard]] double left_s() const { return options_.budget_s - used_s(); }
  /// Returns the duration of one pair in seconds.
  [[nodiscard]] double pair_s() const { return 2 * run_s_; }
  /// Returns the duration of `pairs` pairs of the final comparison with the original, in seconds.
  [[nodiscard]] double proof_s(int pairs) const { return 2 * pairs * original_s_; }
  /// Returns how many pairs fit into the budget if `reserve_s` seconds of the budget must remain.
  [[nodiscard]] int affordable_pairs(double reserve_s) const;
  /// Returns how many pairs of the final comparison fit into the rest of the budget.
  [[nodiscard]] int proof_pairs() const;

 private:
  const TuneOptions& options_;
  const TuneTools& tools_;
  double began_;
  double run_s_ = 0;       // of the current base
  double original_s_ = 0;  // of the unchanged experiment
  report::TuneChanges base_;
  bool is_late_ = false;
};

}  // namespace trainctl::study
