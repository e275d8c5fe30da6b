#include "study/tune/paired_trials.hpp"

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"

#include <cmath>

namespace trainctl::study {

using report::TuneChanges;

namespace {

int whole_pairs(double time_s, double pair_s) {
  constexpr double kMost = 1e6;
  constexpr double kRounding = 1e-9;
  if (time_s <= 0) return 0;
  return static_cast<int>(std::min(kMost, time_s / std::max(pair_s, kRounding) + kRounding));
}

using report::TuneDecision;

constexpr double kWorthwhile = 1.01;  // a smaller gain is not worth a key
constexpr double kNegligible = 1.03;  // a change is rejected if its gain cannot reach this
constexpr double kObvious = 1.1;      // for every pair
constexpr std::size_t kFewestPairs = 2;

enum class Side { base, other };

/// Adds a run of one setting. Returns false if the run failed.
bool run_side(const Comparison& comparison, Side side, const RunTune& run, ComparisonRuns& runs) {
  const bool is_base = side == Side::base;
  const TuneResult result = run(is_base ? comparison.base : comparison.other, comparison.scope);
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    runs.failed = *failure;
    runs.base_failed = is_base;
    return false;
  }
  const auto& sample = std::get<TuneSample>(result);
  (is_base ? runs.base : runs.other).trials.push_back(sample.trial);
  (is_base ? runs.base_s : runs.other_s).push_back(sample.sample_s);
  if (!is_base) runs.last = sample;
  return true;
}

/// Returns a ruling that follows from the losses and batches alone; nullopt if they are as
/// expected.
std::optional<ComparisonRuling> check_losses(const Comparison& comparison,
                                             const ComparisonRuns& runs) {
  if (comparison.rule == LossRule::other) return std::nullopt;
  if (report::same_batches(runs.base, runs.other) == false)
    return ComparisonRuling{TuneDecision::batches_differ, "differ",
                            "the batches differ from those without the change"};
  const std::optional<double> gap = report::loss_gap(runs.base, runs.other);
  const std::string text = report::loss_text(gap);
  if (!gap)
    return ComparisonRuling{TuneDecision::losses_differ, text, "the losses cannot be compared"};
  const double own = report::loss_gap(runs.base, runs.base).value_or(0);
  const bool exact = comparison.rule == LossRule::same && own == 0;
  const double most = exact ? 0 : std::max(comparison.tolerance, own);
  if (*gap <= most) return std::nullopt;
  const std::string asked =
      exact ? "they must be bitwise equal" : fmt::format("the tolerance is {:g}", most);
  return ComparisonRuling{TuneDecision::losses_differ, text,
                          fmt::format("the losses differ by {:.1e}; {}", *gap, asked)};
}

/// Returns the logarithm of each pair's gain.
std::vector<double> log_gains(const ComparisonRuns& runs) {
  std::vector<double> gains;
  for (int i = 0; i < runs.pairs(); ++i) {
    const auto pair = static_cast<std::size_t>(i);
    const double gain = runs.base_s[pair] / runs.other_s[pair];
    if (gain > 0 && std::isfinite(gain)) gains.push_back(std::log(gain));
  }
  return gains;
}

std::string open_reason(const report::Speedup& gain) {
  if (!gain.ci95) return "too few runs for a 95 % interval";
  if (gain.value.value_or(0) < 1) return "too noisy: a gain of 1.03x or more is still possible";
  return "too noisy: the 95 % confidence interval reaches below 1.01x, so there may be no gain";
}

}  // namespace

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
  // The duration of a change's runs does not predict how long other changes take.
  const double longest = longest_s(runs.base);
  if (longest > 0 && comparison.base.empty()) original_s_ = longest;
  if (longest > 0 && comparison.base == base_) run_s_ = longest;
}

int PairedTrials::affordable_pairs(double reserve_s) const {
  return whole_pairs(left_s() - reserve_s, pair_s());
}

int PairedTrials::proof_pairs() const { return whole_pairs(left_s(), proof_s(1)); }

TuneScope scope_of(const report::TuneChanges& changes) {
  const bool whole = std::ranges::any_of(changes, [](const report::TuneChange& each) {
    return is_interval_key(each.key) || each.key.starts_with("checkpoint.");
  });
  return whole ? TuneScope::whole : TuneScope::lean;
}

int ComparisonRuns::pairs() const {
  return static_cast<int>(std::min(base_s.size(), other_s.size()));
}

double longest_s(const report::BenchRow& row) {
  double longest = 0;
  for (const report::Trial& trial : row.trials) longest = std::max(longest, trial.total_s);
  return longest;
}

void run_pairs(const Comparison& comparison, int pairs, const RunTune& run, ComparisonRuns& runs) {
  while (static_cast<int>(runs.other_s.size()) < pairs) {
    const bool base_first = runs.other_s.size() % 2 == 0;
    for (const Side side :
         {base_first ? Side::base : Side::other, base_first ? Side::other : Side::base}) {
      if (!run_side(comparison, side, run, runs)) return;
    }
    // A single run of the base does not show whether the base is bitwise reproducible.
    if (runs.base_s.size() >= kFewestPairs && check_losses(comparison, runs)) return;
  }
}

void PairNoise::update(const std::string& name, const ComparisonRuns& runs) {
  const std::vector<double> gains = log_gains(runs);
  if (gains.size() < kFewestPairs) return;
  const double middle = mean(gains);
  Scatter scatter{.squares = 0, .degrees = static_cast<double>(gains.size() - 1)};
  for (const double gain : gains) scatter.squares += (gain - middle) * (gain - middle);
  scatters_[name] = scatter;
}

PairNoise::Scatter PairNoise::pooled() const {
  Scatter all;
  for (const auto& [name, scatter] : scatters_) {
    all.squares += scatter.squares;
    all.degrees += scatter.degrees;
  }
  return all;
}

std::optional<double> PairNoise::deviation() const {
  const Scatter all = pooled();
  return all.degrees > 0 ? std::optional(std::sqrt(all.squares / all.degrees)) : std::nullopt;
}

std::optional<report::Interval> PairNoise::interval(const ComparisonRuns& runs) const {
  const std::vector<double> gains = log_gains(runs);
  const std::optional<double> noise = deviation();
  if (gains.empty() || !noise) return std::nullopt;
  const double error = *noise / std::sqrt(static_cast<double>(gains.size()));
  const double reach = student_quantile(0.975, pooled().degrees) * error;
  return report::Interval{std::exp(mean(gains) - reach), std::exp(mean(gains) + reach)};
}

int PairNoise::pairs_to_decide(const ComparisonRuns& runs) const {
  constexpr int kMost = 1000;
  const std::vector<double> gains = log_gains(runs);
  const std::optional<double> noise = deviation();
  const int next = runs.pairs() + 1;
  if (gains.empty() || noise.value_or(0) <= 0)
    return std::max(next, static_cast<int>(report::kFewestPairs));
  const double gain = mean(gains);
  const double effect = std::max(gain - std::log(kWorthwhile), std::log(kNegligible) - gain);
  return std::max(repeats_for(*noise, effect, {.most = kMost}).value_or(kMost), next);
}

bool is_obvious(const ComparisonRuns& runs) {
  const std::vector<double> gains = log_gains(runs);
  return gains.size() >= kFewestPairs &&
         std::ranges::all_of(gains, [](double gain) { return gain > std::log(kObvious); });
}

ComparisonRuling rule_on(const Comparison& comparison, const ComparisonRuns& runs,
                         const PairNoise& noise) {
  if (runs.failed && runs.failed->overdue)
    return {TuneDecision::no_gain, "?", "a run took more than three times as long as the baseline"};
  if (runs.failed) return {TuneDecision::failed, "?", one_line(runs.failed->message)};
  if (const auto numbers = check_losses(comparison, runs)) return *numbers;
  const std::string losses = comparison.rule == LossRule::other
                                 ? "not compared"
                                 : report::loss_text(report::loss_gap(runs.base, runs.other));
  const report::Speedup gain = runs.gain();
  const bool certain = gain.ci95 && gain.ci95->low > kWorthwhile;
  if (certain) return {TuneDecision::accepted, losses, "the 95 % interval is above 1.01x"};
  const std::optional<report::Interval> likely = noise.interval(runs);
  if (likely && likely->high < kNegligible)
    return {TuneDecision::no_gain, losses,
            likely->high < 1 ? "slower" : "any gain is below 1.03x, too small to measure further"};
  return {TuneDecision::unclear, losses, open_reason(gain)};
}

}  // namespace trainctl::study
