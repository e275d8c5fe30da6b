#include "study/tune_fights.hpp"

#include <algorithm>
#include <variant>

namespace trainctl::study {

using report::Ruling;
using report::TuneChanges;

TuneFights::TuneFights(const TuneWish& wish, const TuneTools& tools)
    : wish_(wish), tools_(tools), began_(tools.clock.now()) {}

void TuneFights::rebase(const TuneChanges& base, double run_s) {
  base_ = base;
  run_s_ = run_s;
}

DuelRuling TuneFights::fight(const Duel& duel, DuelRuns& runs, int more) {
  DuelRuling ruling = compare(duel, runs, wish_.repeats);
  learn_time(duel, runs);
  if (ruling.ruling == Ruling::unclear && !is_late_ && has_time_for(more)) {
    tools_.say("undecided  as many runs again");
    ruling = compare(duel, runs, 2 * wish_.repeats);
  }
  return ruling;
}

/// No run of the other goes on for long beyond the base, and none at all beyond the budget; what
/// that one cuts off is judged by the pairs before.
DuelRuling TuneFights::compare(const Duel& duel, DuelRuns& runs, int pairs) {
  constexpr double kSlowest = 3;
  const RunTune run = [&](const TuneChanges& changes, TuneScope scope) {
    const bool is_base = changes == duel.base;
    const double slow_s = kSlowest * std::max(run_s_, longest_s(runs.base));
    const double left = left_s();
    TuneResult result = tools_.run(changes, scope, is_base ? left : std::min(left, slow_s));
    const auto* failure = std::get_if<report::TrialFailure>(&result);
    is_late_ = failure != nullptr && failure->overdue && (is_base || left < slow_s);
    return result;
  };
  run_pairs(duel, pairs, run, runs);
  if (!is_late_) return judge(duel, runs);
  runs.failed.reset();
  runs.base_failed = false;
  DuelRuling ruling = judge(duel, runs);
  if (ruling.ruling != Ruling::accepted)
    ruling = {Ruling::unclear, ruling.losses, "the budget was over before its runs were"};
  return ruling;
}

/// A candidate's runs tell nothing of what it costs to try others.
void TuneFights::learn_time(const Duel& duel, const DuelRuns& runs) {
  const double longest = longest_s(runs.base);
  if (longest <= 0) return;
  if (duel.base.empty()) original_s_ = longest;
  if (duel.base == base_) run_s_ = longest;
}

}  // namespace trainctl::study
