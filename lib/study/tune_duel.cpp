#include "study/tune_duel.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::study {
namespace {

using report::Ruling;

constexpr double kWorthwhile = 1.01;  // a gain below it is not worth a key
constexpr double kPromising = 1.03;   // one that looks so large should not be waved away as none
constexpr std::size_t kFewestPairs = 2;

/// False: the run failed.
bool take(const TuneResult& result, report::BenchRow& row, std::vector<double>& seconds,
          DuelRuns& runs) {
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    runs.failed = *failure;
    return false;
  }
  const auto& sample = std::get<TuneSample>(result);
  row.trials.push_back(sample.trial);
  seconds.push_back(sample.sample_s);
  return true;
}

bool run_base(const Duel& duel, const RunTune& run, DuelRuns& runs) {
  if (take(run(duel.base, duel.scope), runs.base, runs.base_s, runs)) return true;
  runs.base_failed = true;
  return false;
}

bool run_other(const Duel& duel, const RunTune& run, DuelRuns& runs) {
  const TuneResult result = run(duel.other, duel.scope);
  if (!take(result, runs.other, runs.other_s, runs)) return false;
  runs.last = std::get<TuneSample>(result);
  return true;
}

/// What the losses and batches alone say; nothing: they are as they should be.
std::optional<DuelRuling> judge_numbers(const Duel& duel, const DuelRuns& runs) {
  if (duel.rule == LossRule::other) return std::nullopt;
  if (report::same_batches(runs.base, runs.other) == false)
    return DuelRuling{Ruling::batches_differ, "differ", "it was trained on other batches"};
  const std::optional<double> gap = report::loss_gap(runs.base, runs.other);
  const std::string text = report::loss_text(gap);
  if (!gap)
    return DuelRuling{Ruling::losses_differ, text, "the losses of the two cannot be compared"};
  const double own = report::loss_gap(runs.base, runs.base).value_or(0);
  const bool exact = duel.rule == LossRule::same && own == 0;
  const double most = exact ? 0 : std::max(duel.tolerance, own);
  if (*gap <= most) return std::nullopt;
  const std::string asked =
      exact ? "not one bit may differ" : fmt::format("the tolerance is {:g}", most);
  return DuelRuling{Ruling::losses_differ, text,
                    fmt::format("the losses differ by {:.1e}, and {}", *gap, asked)};
}

std::string losses_of(const Duel& duel, const DuelRuns& runs) {
  if (duel.rule == LossRule::other) return "not compared";
  return report::loss_text(report::loss_gap(runs.base, runs.other));
}

bool is_hopeless(const DuelRuns& runs) {
  const std::size_t pairs = std::min(runs.base_s.size(), runs.other_s.size());
  if (pairs < kFewestPairs) return false;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (runs.other_s[i] < runs.base_s[i]) return false;
  }
  return true;
}

}  // namespace

TuneScope scope_of(const report::TuneChanges& changes) {
  const bool whole = std::ranges::any_of(changes, [](const report::TuneChange& each) {
    return is_cadence(each.key) || each.key.starts_with("checkpoint.");
  });
  return whole ? TuneScope::whole : TuneScope::lean;
}

double longest_s(const report::BenchRow& row) {
  double longest = 0;
  for (const report::Trial& trial : row.trials) longest = std::max(longest, trial.total_s);
  return longest;
}

void run_pairs(const Duel& duel, int pairs, const RunTune& run, DuelRuns& runs) {
  while (static_cast<int>(runs.other_s.size()) < pairs) {
    const bool base_first = runs.other_s.size() % 2 == 0;
    const bool ran = base_first ? run_base(duel, run, runs) && run_other(duel, run, runs)
                                : run_other(duel, run, runs) && run_base(duel, run, runs);
    if (!ran || is_hopeless(runs)) return;
    // One run of the base does not tell whether it repeats its own bits.
    if (runs.base_s.size() >= kFewestPairs && judge_numbers(duel, runs)) return;
  }
}

DuelRuling judge(const Duel& duel, const DuelRuns& runs) {
  if (runs.failed && runs.failed->overdue)
    return {Ruling::no_gain, "?", "a run of it took more than three times as long"};
  if (runs.failed) return {Ruling::failed, "?", runs.failed->message};
  if (const auto numbers = judge_numbers(duel, runs)) return *numbers;
  const std::string losses = losses_of(duel, runs);
  const report::Speedup gain = runs.gain();
  const bool certain = gain.ci95 && gain.ci95->low > kWorthwhile;
  if (certain) return {Ruling::accepted, losses, "the interval lies above 1"};
  if (is_hopeless(runs)) return {Ruling::no_gain, losses, "it was never faster"};
  if (gain.value.value_or(0) < kPromising) return {Ruling::no_gain, losses, "it is hardly faster"};
  return {Ruling::unclear, losses,
          gain.ci95 ? "too noisy: the interval does not exclude that nothing is won"
                    : "too few runs for an interval"};
}

}  // namespace trainctl::study
