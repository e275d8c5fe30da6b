#include "report/lr_curve.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

constexpr int kRows = 12;
constexpr int kBars = 60;

/// As the stopper `divergence` has it, with which a sweep ends.
double limit_above(double lowest) {
  return lowest + std::max((kOutOfHand - 1) * std::abs(lowest), kLeastRise);
}

std::vector<SmoothedStep> smoothed(std::span<const RateStep> steps,
                                   std::optional<double>& diverged_at) {
  std::vector<SmoothedStep> kept;
  double mean = 0;
  double weight = 1;
  double lowest = std::numeric_limits<double>::infinity();
  for (const RateStep& step : steps) {
    mean = kSmoothing * mean + (1 - kSmoothing) * step.loss;
    weight *= kSmoothing;
    const double value = mean / (1 - weight);
    const bool is_judged = kept.size() + 1 >= kFewestRates;
    const bool rose = std::isfinite(lowest) && value > limit_above(lowest);
    if (!std::isfinite(value) || rose) {
      diverged_at = step.lr;
      break;
    }
    if (is_judged) lowest = std::min(lowest, value);
    kept.push_back({step.lr, step.loss, value});
  }
  return kept;
}

/// Change of the mean with the logarithm of the rate, from the neighbours on both sides.
double slope_at(std::span<const SmoothedStep> steps, std::size_t i) {
  const SmoothedStep& before = steps[i - 1];
  const SmoothedStep& after = steps[i + 1];
  return (after.smoothed - before.smoothed) / std::log(after.lr / before.lr);
}

/// The first means are those of a few losses, and as rough.
std::size_t rough_steps(std::size_t steps) { return std::clamp<std::size_t>(steps / 10, 1, 10); }

std::optional<double> steepest(std::span<const SmoothedStep> steps) {
  double least = 0;
  std::optional<double> found;
  for (std::size_t i = rough_steps(steps.size()); i + 1 < steps.size(); ++i) {
    const double slope = slope_at(steps, i);
    if (!(slope < least)) continue;
    least = slope;
    found = steps[i].lr;
  }
  return found;
}

std::optional<double> lowest(std::span<const SmoothedStep> steps) {
  const auto rest = steps.subspan(rough_steps(steps.size()));
  return std::ranges::min_element(rest, {}, &SmoothedStep::smoothed)->lr;
}

std::string bar_of(double share) {
  constexpr std::array kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double last = static_cast<double>(kHeights.size() - 1);
  return kHeights[static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last))];
}

struct Bounds {
  double low = 0;
  double high = 0;
  [[nodiscard]] double share(double value) const {
    return high > low ? (value - low) / (high - low) : 0;
  }
};

Bounds bounds_of(std::span<const SmoothedStep> steps) {
  const auto [low, high] = std::ranges::minmax_element(steps, {}, &SmoothedStep::smoothed);
  return {low->smoothed, high->smoothed};
}

/// At most `most` of the steps, the first and the last among them, equally far apart.
std::vector<SmoothedStep> thinned(std::span<const SmoothedStep> steps, int most) {
  const std::size_t count = std::min(steps.size(), static_cast<std::size_t>(most));
  std::vector<SmoothedStep> few;
  for (std::size_t i = 0; i < count; ++i)
    few.push_back(steps[count == 1 ? 0 : i * (steps.size() - 1) / (count - 1)]);
  return few;
}

std::string bars(const LrCurve& curve) {
  const Bounds bounds = bounds_of(curve.steps);
  std::string text = " ";
  for (const SmoothedStep& step : thinned(curve.steps, kBars))
    text += bar_of(bounds.share(step.smoothed));
  return text + '\n';
}

Table rows_of(const LrCurve& curve, const Style& style) {
  const Bounds bounds = bounds_of(curve.steps);
  constexpr int kWidth = 30;
  const std::string ink = style.glyphs == Glyphs::unicode ? "█" : "#";
  Table table({{"lr"}, {"loss"}, {"smoothed"}, {"", Align::left}});
  for (const SmoothedStep& step : thinned(curve.steps, kRows)) {
    std::string bar;
    for (long i = std::lround(bounds.share(step.smoothed) * kWidth); i > 0; --i) bar += ink;
    table.add({rate_of(step.lr), metric_text(step.loss), metric_text(step.smoothed), bar});
  }
  return table;
}

Json json_of(const std::optional<double>& rate) { return rate ? json_number(*rate) : Json(); }

}  // namespace

std::optional<double> LrCurve::tenth_of_minimum() const {
  return minimum ? std::optional(*minimum / 10) : std::nullopt;
}

LrCurve read_lr_curve(std::span<const RateStep> steps) {
  LrCurve curve;
  curve.steps = smoothed(steps, curve.diverged_at);
  if (curve.steps.size() < kFewestRates) {
    curve.remark = fmt::format(
        "only {} step{} came before the loss went out of hand, {} are needed: lower "
        "--min, or look for another cause",
        curve.steps.size(), curve.steps.size() == 1 ? "" : "s", kFewestRates);
    return curve;
  }
  curve.steepest = steepest(curve.steps);
  if (!curve.steepest) {
    curve.remark = "the loss falls at none of these rates: lower --min, or raise --steps";
    return curve;
  }
  curve.minimum = lowest(curve.steps);
  if (!curve.diverged_at && *curve.minimum == curve.steps.back().lr)
    curve.remark = "the loss still falls at the highest rate: raise --max";
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
    text += "  " + paint(pad(label, 12, Align::left), Ink::cyan, style) + value + '\n';
  };
  if (curve.diverged_at) fact("diverges", "at " + rate_of(*curve.diverged_at));
  if (curve.steepest)
    fact("steepest", rate_of(*curve.steepest) + ", where the smoothed loss falls fastest");
  if (curve.minimum)
    fact("a tenth", fmt::format("{} of the rate with the lowest loss, {}",
                                rate_of(*curve.tenth_of_minimum()), rate_of(*curve.minimum)));
  if (!curve.remark.empty()) fact("remark", curve.remark);
  return text;
}

std::string lr_curve_csv(const LrCurve& curve) {
  Table table({{"step"}, {"lr"}, {"loss"}, {"smoothed"}});
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const SmoothedStep& step = curve.steps[i];
    table.add({std::to_string(i + 1), exact_text(step.lr), exact_text(step.loss),
               exact_text(step.smoothed)});
  }
  return to_csv(table);
}

Json lr_curve_json(const LrCurve& curve) {
  Json points = Json::array();
  for (const SmoothedStep& step : curve.steps)
    points.push_back({{"lr", json_number(step.lr)},
                      {"loss", json_number(step.loss)},
                      {"smoothed", json_number(step.smoothed)}});
  return {{"points", points},
          {"diverged_at", json_of(curve.diverged_at)},
          {"suggestion",
           {{"steepest", json_of(curve.steepest)},
            {"tenth_of_minimum", json_of(curve.tenth_of_minimum())}}},
          {"remark", curve.remark}};
}

}  // namespace trainctl::report
