#pragma once

#include "study/tune/tune.hpp"

namespace trainctl::study {

/// Runs the comparisons of a search within its budget.
class PairedTrials {
 public:
  /// The budget runs from now on.
  PairedTrials(const TuneWish& wish, const TuneTools& tools);

  /// Sets how long one run of the experiment as it is takes.
  void start(double run_s) { run_s_ = original_s_ = run_s; }
  /// Sets what changes are compared with from now on, and how long one run of it takes.
  void rebase(const report::TuneChanges& base, double run_s);
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
  void learn_time(const Comparison& comparison, const ComparisonRuns& runs);

  const TuneWish& wish_;
  const TuneTools& tools_;
  double began_;
  double run_s_ = 0;       // of what changes are compared with
  double original_s_ = 0;  // of the experiment as it is
  report::TuneChanges base_;
  bool is_late_ = false;
};

}  // namespace trainctl::study
