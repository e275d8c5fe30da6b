#include "study/tune/paired_trials.hpp"

#include <algorithm>
#include <variant>

namespace trainctl::study {

using report::TuneChanges;

namespace {

int whole_pairs(double time_s, double pair_s) {
  constexpr double kMost = 1e6;
  constexpr double kRounding = 1e-9;
  if (time_s <= 0) return 0;
  return static_cast<int>(std::min(kMost, time_s / std::max(pair_s, kRounding) + kRounding));
}

}  // namespace

PairedTrials::PairedTrials(const TuneWish& wish, const TuneTools& tools)
    : wish_(wish), tools_(tools), began_(tools.clock.now()) {}

void PairedTrials::rebase(const TuneChanges& base, double run_s) {
  base_ = base;
  run_s_ = run_s;
}

void PairedTrials::run(const Comparison& comparison, int pairs, ComparisonRuns& runs) {
  constexpr double kSlowest = 3;
  const RunTune run = [&](const TuneChanges& changes, TuneScope scope) {
    const bool is_base = changes == comparison.base;
    const double slow_s = kSlowest * std::max(run_s_, longest_s(runs.base));
    const double left = left_s();
    TuneResult result = tools_.run(changes, scope, is_base ? left : std::min(left, slow_s));
    const auto* failure = std::get_if<report::TrialFailure>(&result);
    is_late_ = failure != nullptr && failure->overdue && (is_base || left < slow_s);
    return result;
  };
  run_pairs(comparison, pairs, run, runs);
  if (is_late_) {
    runs.failed.reset();
    runs.base_failed = false;
  }
  learn_time(comparison, runs);
}

int PairedTrials::affordable_pairs(double reserve_s) const {
  return whole_pairs(left_s() - reserve_s, pair_s());
}

int PairedTrials::proof_pairs() const { return whole_pairs(left_s(), proof_s(1)); }

/// The runs of a change tell nothing of what it costs to try others.
void PairedTrials::learn_time(const Comparison& comparison, const ComparisonRuns& runs) {
  const double longest = longest_s(runs.base);
  if (longest <= 0) return;
  if (comparison.base.empty()) original_s_ = longest;
  if (comparison.base == base_) run_s_ = longest;
}

}  // namespace trainctl::study
