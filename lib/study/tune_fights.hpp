#pragma once

#include "study/tune.hpp"

namespace trainctl::study {

/// The comparisons of a search, within its budget: what they may cost, and what of them to believe.
class TuneFights {
 public:
  /// The budget runs from now on.
  TuneFights(const TuneWish& wish, const TuneTools& tools);

  /// One run of the experiment as it is takes so long.
  void start(double run_s) { run_s_ = original_s_ = run_s; }
  /// What changes are compared with from now on, and how long one run of it takes.
  void rebase(const report::TuneChanges& base, double run_s);
  [[nodiscard]] const report::TuneChanges& base() const { return base_; }

  /// Runs all pairs, and as many again where they leave it open and the time is there for `more`
  /// comparisons and the proof.
  DuelRuling fight(const Duel& duel, DuelRuns& runs, int more);
  /// A run was ended with the budget.
  [[nodiscard]] bool is_late() const { return is_late_; }

  [[nodiscard]] double used_s() const { return wish_.spent_s + tools_.clock.now() - began_; }
  [[nodiscard]] double left_s() const { return wish_.budget_s - used_s(); }
  [[nodiscard]] double comparison_s() const { return 2.0 * wish_.repeats * run_s_; }
  /// So many comparisons end within the budget, and behind them one with the original: the proof.
  [[nodiscard]] bool has_time_for(int comparisons) const {
    return comparisons * comparison_s() + 2.0 * wish_.repeats * original_s_ <= left_s();
  }

 private:
  DuelRuling compare(const Duel& duel, DuelRuns& runs, int pairs);
  void learn_time(const Duel& duel, const DuelRuns& runs);

  const TuneWish& wish_;
  const TuneTools& tools_;
  double began_;
  double run_s_ = 0;       // of what changes are compared with
  double original_s_ = 0;  // of the experiment as it is
  report::TuneChanges base_;
  bool is_late_ = false;
};

}  // namespace trainctl::study
