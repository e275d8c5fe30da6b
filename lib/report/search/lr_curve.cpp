#include "report/search/lr_curve.hpp"

#include "base/numbers.hpp"
#include "report/text/table.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace trainctl::report {
namespace {

constexpr int kRows = 12;
constexpr int kBars = 60;

/// Returns the steps before the loss diverged, and sets `diverged_at` to the rate of the first
/// diverged step.
std::vector<SmoothedStep> stable_steps(std::span<const RateStep> steps,
                                       std::optional<double>& diverged_at) {
  std::vector<SmoothedStep> kept;
  double mean = 0;
  double weight = 1;
  double lowest = std::numeric_limits<double>::infinity();
  for (const RateStep& step : steps) {
    mean = kSmoothing * mean + (1 - kSmoothing) * step.loss;
    weight *= kSmoothing;
    const double value = mean / (1 - weight);
    const bool counts = kept.size() + 1 >= kFewestRates;
    // The same limit as that of the stopper `divergence`, which ends a sweep.
    const double limit = lowest + std::max((kOutOfHand - 1) * std::abs(lowest), kLeastRise);
    const bool diverged = std::isfinite(lowest) && value > limit;
    if (!std::isfinite(value) || diverged) {
      diverged_at = step.lr;
      break;
    }
    if (counts) lowest = std::min(lowest, value);
    kept.push_back({step.lr, step.loss, step.loss});
  }
  return kept;
}

/// Returns the number of steps whose loss counts as that of the untrained network: the first tenth.
std::size_t first_steps(std::size_t steps) { return std::max<std::size_t>(steps / 10, 1); }

/// Returns the standard deviation of the losses of neighboring steps. The median of the differences
/// ignores the few steps in which the loss explodes.
double noise_of(std::span<const SmoothedStep> steps) {
  constexpr double kMedianOfNormal = 0.6745;
  std::vector<double> changes;
  for (std::size_t i = 1; i < steps.size(); ++i)
    changes.push_back(std::abs(steps[i].loss - steps[i - 1].loss));
  return median(changes) / (kMedianOfNormal * std::numbers::sqrt2);
}

/// Returns the width of the Gaussian in steps.
double smoothing_width(std::span<const SmoothedStep> steps) {
  constexpr double kDecades = 0.15;
  constexpr double kFewestSteps = 3;
  const auto count = static_cast<double>(steps.size());
  const double decades = std::log10(steps.back().lr / steps.front().lr);
  const double per_decade = decades > 0 ? (count - 1) / decades : 0;
  return std::max(std::min(kFewestSteps, count / 10), kDecades * per_decade);
}

/// Returns the value to which larger losses are clipped.
double ceiling_of(std::span<const SmoothedStep> steps, double noise) {
  constexpr double kAbove = 4;  // relative to the noise
  std::vector<double> first;
  for (const SmoothedStep& step : steps.first(first_steps(steps.size())))
    first.push_back(step.loss);
  return median(first) + kAbove * noise;
}

double gaussian_mean(std::span<const SmoothedStep> steps, std::size_t center, double width,
                     double ceiling) {
  constexpr double kReach = 3;  // times the width; further weights are negligible
  const auto reach = static_cast<std::size_t>(std::ceil(kReach * width));
  const std::size_t end = std::min(center + reach + 1, steps.size());
  double sum = 0;
  double weights = 0;
  for (std::size_t i = center - std::min(center, reach); i < end; ++i) {
    const double distance = (static_cast<double>(i) - static_cast<double>(center)) / width;
    const double weight = std::exp(-0.5 * distance * distance);
    sum += weight * std::min(steps[i].loss, ceiling);
    weights += weight;
  }
  return sum / weights;
}

/// The fall of the smoothed loss, and its lowest point.
struct Fall {
  double from = 0;  // mean of the first steps
  double depth = 0;
  std::size_t lowest = 0;  // the index of the step

  [[nodiscard]] double after(double share) const { return from - share * depth; }
};

Fall fall_of(std::span<const SmoothedStep> steps) {
  const std::size_t first = first_steps(steps.size());
  Fall fall;
  for (const SmoothedStep& step : steps.first(first))
    fall.from += step.smoothed / static_cast<double>(first);
  const auto rest = steps.subspan(first);
  const auto lowest = std::ranges::min_element(rest, {}, &SmoothedStep::smoothed);
  fall.lowest = first + static_cast<std::size_t>(lowest - rest.begin());
  fall.depth = fall.from - lowest->smoothed;
  return fall;
}

/// Returns whether the fall exceeds the fall that noise would cause in a flat loss.
bool is_clear(const Fall& fall, double noise, double width) {
  constexpr double kDeviations = 5;
  constexpr double kRounding = 1e-6;
  // The variance of a Gaussian mean equals that of a plain mean over this many losses.
  const double losses = std::max(2 * std::sqrt(std::numbers::pi) * width, 1.0);
  return fall.depth > kDeviations * noise / std::sqrt(losses) &&
         fall.depth > kRounding * std::abs(fall.from);
}

/// Returns the first step at which the smoothed loss has made that fraction of its fall.
std::size_t step_after(std::span<const SmoothedStep> steps, const Fall& fall, double share) {
  std::size_t i = first_steps(steps.size());
  while (i < fall.lowest && steps[i].smoothed > fall.after(share)) ++i;
  return i;
}

RateRange range_of(std::span<const SmoothedStep> steps, const Fall& fall) {
  constexpr double kStarted = 0.25;
  constexpr double kMostlyDone = 0.8;
  constexpr double kDone = 0.9;
  constexpr double kBelowFall = 1.5;    // factor of the suggestion
  constexpr double kBelowLowest = 4.5;  // factor of the suggestion
  constexpr double kHighBelowLowest = 3;
  constexpr double kLongTraining = 3;  // factor for a long training, whose best rate is lower
  const double lowest = steps[fall.lowest].lr;
  const std::size_t done = step_after(steps, fall, kMostlyDone);
  std::size_t started = done;  // the loss may have fallen and risen earlier by chance
  while (started > 0 && steps[started - 1].smoothed <= fall.after(kStarted)) --started;
  RateRange range;
  range.suggestion = std::min(steps[done].lr / kBelowFall, lowest / kBelowLowest);
  range.low = std::min(steps[started].lr, range.suggestion / kLongTraining);
  range.high = std::min(steps[step_after(steps, fall, kDone)].lr, lowest / kHighBelowLowest);
  return range;
}

/// Returns the derivative of the smoothed loss by the logarithm of the rate, from both neighbors.
double slope_at(std::span<const SmoothedStep> steps, std::size_t i) {
  const SmoothedStep& before = steps[i - 1];
  const SmoothedStep& after = steps[i + 1];
  return (after.smoothed - before.smoothed) / std::log(after.lr / before.lr);
}

/// Returns the rate of the steepest descent before the lowest loss.
double steepest_of(std::span<const SmoothedStep> steps, const Fall& fall) {
  double least = 0;
  double found = steps[fall.lowest].lr;
  for (std::size_t i = first_steps(steps.size()); i < fall.lowest; ++i) {
    const double slope = slope_at(steps, i);
    if (!(slope < least)) continue;
    least = slope;
    found = steps[i].lr;
  }
  return found;
}

std::string bar_of(double share) {
  constexpr std::array kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double last = static_cast<double>(kHeights.size() - 1);
  return kHeights[static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last))];
}

struct LossBounds {
  double low = 0;
  double high = 0;
  [[nodiscard]] double share(double value) const {
    return high > low ? (value - low) / (high - low) : 0;
  }
};

LossBounds bounds_of(std::span<const SmoothedStep> steps) {
  const auto [low, high] = std::ranges::minmax_element(steps, {}, &SmoothedStep::smoothed);
  return {low->smoothed, high->smoothed};
}

/// Returns at most `most` steps at equal distances, including the first and the last.
std::vector<SmoothedStep> thinned(std::span<const SmoothedStep> steps, int most) {
  const std::size_t count = std::min(steps.size(), static_cast<std::size_t>(most));
  std::vector<SmoothedStep> few;
  for (std::size_t i = 0; i < count; ++i)
    few.push_back(steps[count == 1 ? 0 : i * (steps.size() - 1) / (count - 1)]);
  return few;
}

std::string bars(const LrCurve& curve) {
  const LossBounds bounds = bounds_of(curve.steps);
  std::string text = " ";
  for (const SmoothedStep& step : thinned(curve.steps, kBars))
    text += bar_of(bounds.share(step.smoothed));
  return text + '\n';
}

Table rows_of(const LrCurve& curve, const Style& style) {
  const LossBounds bounds = bounds_of(curve.steps);
  constexpr int kWidth = 30;
  const std::string ink = style.glyphs == Glyphs::unicode ? "█" : "#";
  Table table({"lr", "loss", "smoothed", left("")});
  for (const SmoothedStep& step : thinned(curve.steps, kRows)) {
    std::string bar;
    for (long i = std::lround(bounds.share(step.smoothed) * kWidth); i > 0; --i) bar += ink;
    table.add({rate_of(step.lr), metric_text(step.loss), metric_text(step.smoothed), bar});
  }
  return table;
}

Json suggestion_json(const LrCurve& curve) {
  const auto rate = [&](double RateRange::*member) {
    return curve.range ? json_number((*curve.range).*member) : Json(nullptr);
  };
  return {{"lr", rate(&RateRange::suggestion)},
          {"low", rate(&RateRange::low)},
          {"high", rate(&RateRange::high)},
          {"steepest", json_value(curve.steepest)},
          {"tenth_of_minimum", json_value(curve.tenth_of_minimum())}};
}

}  // namespace

std::optional<double> LrCurve::suggestion() const {
  return range ? std::optional(range->suggestion) : std::nullopt;
}

std::optional<double> LrCurve::tenth_of_minimum() const {
  return minimum ? std::optional(*minimum / 10) : std::nullopt;
}

LrCurve read_lr_curve(std::span<const RateStep> steps) {
  LrCurve curve;
  curve.steps = stable_steps(steps, curve.diverged_at);
  if (curve.steps.size() < kFewestRates) {
    curve.remark = fmt::format(
        "only {} step{} ran before the loss diverged, but {} are needed: lower --min, or look for "
        "another cause of the divergence",
        curve.steps.size(), plural(curve.steps.size()), kFewestRates);
    return curve;
  }
  const double noise = noise_of(curve.steps);
  const double width = smoothing_width(curve.steps);
  const double ceiling = ceiling_of(curve.steps, noise);
  for (std::size_t i = 0; i < curve.steps.size(); ++i)
    curve.steps[i].smoothed = gaussian_mean(curve.steps, i, width, ceiling);
  const Fall fall = fall_of(curve.steps);
  if (!is_clear(fall, noise, width)) {
    curve.remark =
        "the loss does not clearly decrease at any of these rates: lower --min, raise --max or "
        "raise --steps";
    return curve;
  }
  curve.range = range_of(curve.steps, fall);
  curve.steepest = steepest_of(curve.steps, fall);
  curve.minimum = curve.steps[fall.lowest].lr;
  if (!curve.diverged_at && fall.lowest + 1 == curve.steps.size())
    curve.remark = "the loss still decreases at the highest rate: raise --max";
  return curve;
}

std::string rate_of(double lr) { return fmt::format("{:.3g}", lr); }

std::string lr_curve_text(const LrCurve& curve, const Style& style) {
  std::string text;
  if (!curve.steps.empty()) {
    text = to_text(rows_of(curve, style), style);
    if (style.glyphs == Glyphs::unicode) text += bars(curve);
  }
  const auto fact = [&](const char* label, const std::string& value) {
    text += fact_line(label, value, style);
  };
  if (curve.diverged_at) fact("diverges", "at a learning rate of " + rate_of(*curve.diverged_at));
  if (curve.minimum) fact("lowest loss", "at a learning rate of " + rate_of(*curve.minimum));
  if (curve.steepest)
    fact("steepest", "at a learning rate of " + rate_of(*curve.steepest) +
                         ", where the smoothed loss decreases fastest");
  if (curve.range) {
    fact("range", fmt::format("{} to {}; for a long training, use a low rate of this range",
                              rate_of(curve.range->low), rate_of(curve.range->high)));
    fact("suggestion", rate_of(curve.range->suggestion));
  }
  if (!curve.remark.empty()) fact("remark", curve.remark);
  return text;
}

std::string lr_curve_csv(const LrCurve& curve) {
  Table table({"step", "lr", "loss", "smoothed"});
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const SmoothedStep& step = curve.steps[i];
    table.add({std::to_string(i + 1), exact_text(step.lr), exact_text(step.loss),
               exact_text(step.smoothed)});
  }
  return to_csv(table);
}

Json lr_curve_json(const LrCurve& curve) {
  return {{"points", json_list(curve.steps, JSON_OF(lr, loss, smoothed))},
          {"diverged_at", json_value(curve.diverged_at)},
          {"suggestion", suggestion_json(curve)},
          {"remark", curve.remark}};
}

}  // namespace trainctl::report
