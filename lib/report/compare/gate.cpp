#include "report/compare/gate.hpp"

#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "report/compare/gate_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

const std::vector<double>* find(const Samples& samples, const std::string& name) {
  const auto found = samples.find(name);
  return found == samples.end() || found->second.empty() ? nullptr : &found->second;
}

bool is_metric(const std::string& name) { return name.find('/') != std::string::npos; }

/// Bit by bit.
bool repeats_itself(const std::vector<double>& values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

/// What training computes from a seed is the same in every run, unless some kernel is not
/// deterministic: two runs on one side tell.
bool is_exact(const std::string& name, const std::vector<double>& base,
              const std::vector<double>& now) {
  if (!is_metric(name) || !repeats_itself(base) || !repeats_itself(now)) return false;
  return base.size() + now.size() > 2 || base.front() == now.front();
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

Scale scale_of(const Condition& condition) {
  return condition.unit == Unit::percent ? Scale::ratio : Scale::difference;
}

/// 0.9 less 0.895 is a little more than half a point.
constexpr double kRounding = 1e-9;

bool crosses(double change, const Condition& condition) {
  return condition.side == Side::below ? change < condition.bound - kRounding
                                       : change > condition.bound + kRounding;
}

void decide(Finding& finding, const Change& change, double level) {
  const Condition& condition = finding.condition;
  if (!change.value) {
    finding.why = "no share of a number that is not above 0: give the bound in pt";
    return;
  }
  finding.change = shown(*change.value, condition);
  if (!change.interval) {
    finding.repeats = static_cast<int>(kFewestPairs);
    finding.why = fmt::format("{} repeat{} give no interval: at least {} are needed",
                              change.repeats, change.repeats == 1 ? "" : "s", kFewestPairs);
    return;
  }
  const Interval interval{shown(change.interval->low, condition),
                          shown(change.interval->high, condition)};
  finding.interval = interval;
  const bool low = crosses(interval.low, condition);
  const bool high = crosses(interval.high, condition);
  if (low == high) {
    finding.verdict = low ? Verdict::fail : Verdict::pass;
    finding.why = fmt::format("{} lies {} {}", interval_text(interval, condition.unit),
                              low ? "beyond" : "within", condition.text);
    return;
  }
  const Advice next = advice(condition, change, 1 - level);
  finding.repeats = next.repeats;
  finding.why = fmt::format("{} includes the bound of {}: {}",
                            interval_text(interval, condition.unit), condition.text, next.text);
}

/// Numbers that are the same in all runs of a side.
void decide_exactly(Finding& finding, double base, double now) {
  const Condition& condition = finding.condition;
  const bool share = condition.unit == Unit::percent;
  if (base == now) {
    finding.change = 0;
  } else if (!share || base > 0) {
    finding.change = shown(share ? now / base : now - base, condition);
  } else {
    finding.why = "no share of a number that is not above 0: give the bound in pt";
    return;
  }
  finding.verdict = crosses(*finding.change, condition) ? Verdict::fail : Verdict::pass;
  finding.why =
      fmt::format("{} -> {}, the same in every run of a side", metric_text(base), metric_text(now));
}

/// True where there is nothing to compute any more.
bool lacks_numbers(Finding& finding, const std::vector<double>* base,
                   const std::vector<double>* now) {
  const std::string& name = finding.condition.metric;
  if (base == nullptr || now == nullptr) {
    finding.why = fmt::format("{} of {} is not told by every run", name,
                              now == nullptr ? finding.technique : finding.against);
    return true;
  }
  finding.base = mean(*base);
  finding.now = mean(*now);
  if (!all_finite(*base)) {
    finding.why = fmt::format("{} of {} is not finite", name, finding.against);
    return true;
  }
  if (all_finite(*now)) return false;
  finding.verdict = Verdict::fail;
  finding.why = fmt::format("{} is not finite, and was", name);
  return true;
}

Finding begin(const Condition& condition, const Contest& contest) {
  Finding finding;
  finding.condition = condition;
  finding.technique = contest.technique;
  finding.against = contest.against;
  return finding;
}

bool varies(const Condition& condition, const Contest& contest) {
  const auto* base = find(contest.base, condition.metric);
  const auto* now = find(contest.now, condition.metric);
  return base != nullptr && now != nullptr && !is_exact(condition.metric, *base, *now);
}

Finding judge_one(const Condition& condition, const Contest& contest, double level) {
  Finding finding = begin(condition, contest);
  const auto* base = find(contest.base, condition.metric);
  const auto* now = find(contest.now, condition.metric);
  if (lacks_numbers(finding, base, now)) return finding;
  if (is_exact(condition.metric, *base, *now)) {
    decide_exactly(finding, base->front(), now->front());
    return finding;
  }
  const Scale scale = scale_of(condition);
  const Change change = contest.pairing == Pairing::interleaved
                            ? paired_change(*base, *now, scale, level)
                            : unpaired_change(*base, *now, scale, level);
  finding.outliers = change.outliers;
  decide(finding, change, level);
  return finding;
}

}  // namespace

std::string interval_text(const Interval& interval, Unit unit) {
  const auto digits = [](double value) { return std::abs(value) < 10 ? 2 : 1; };
  return fmt::format("[{:+.{}f}, {:+.{}f}] {}", interval.low, digits(interval.low), interval.high,
                     digits(interval.high), unit_text(unit));
}

std::string unit_text(Unit unit) { return unit == Unit::percent ? "%" : "pt"; }

double level_for(std::size_t comparisons) {
  constexpr double kFamily = 0.05;
  const double tail = kFamily / static_cast<double>(std::max<std::size_t>(comparisons, 2));
  return 1 - 2 * tail;
}

std::vector<Finding> judge(std::span<const Condition> conditions,
                           std::span<const Contest> contests) {
  std::size_t comparisons = 0;
  for (const Contest& contest : contests) {
    comparisons += static_cast<std::size_t>(std::ranges::count_if(
        conditions, [&](const Condition& condition) { return varies(condition, contest); }));
  }
  const double level = level_for(comparisons);
  std::vector<Finding> findings;
  for (const Contest& contest : contests) {
    for (const Condition& condition : conditions)
      findings.push_back(judge_one(condition, contest, level));
  }
  return findings;
}

int gate_code(std::span<const Finding> findings) {
  const auto any = [&](Verdict verdict) {
    return std::ranges::find(findings, verdict, &Finding::verdict) != findings.end();
  };
  return any(Verdict::fail) ? 3 : any(Verdict::inconclusive) ? 4 : 0;
}

}  // namespace trainctl::report
