#pragma once

#include "report/text/format.hpp"

// The learning-rate range test (Smith 2015, arXiv:1506.01186): pure functions of the losses of a
// run whose learning rate rises at every step.

namespace trainctl::report {

/// A step of the sweep.
struct RateStep {
  double lr = 0;
  double loss = 0;
};

/// A step with its smoothed loss.
struct SmoothedStep {
  double lr = 0;
  double loss = 0;
  double smoothed = 0;  // the mean of the losses around this step, see read_lr_curve()
};

/// Learning rates that are likely to train well.
struct RateRange {
  double low = 0;
  double high = 0;
  double suggestion = 0;  // the rate to train with
};

/// The learning rates that a sweep suggests, and the curve they are read from.
struct LrCurve {
  std::vector<SmoothedStep> steps;    // the steps before the loss diverged
  std::optional<double> diverged_at;  // the rate of the first step that is left out
  std::optional<RateRange> range;     // absent: the loss does not clearly fall
  std::optional<double> steepest;     // the rate at which the smoothed loss falls fastest
  std::optional<double> minimum;      // the rate at which the smoothed loss is lowest
  std::string remark;                 // why no rate is suggested, or what to try; may be empty
  /// Returns the suggested rate.
  [[nodiscard]] std::optional<double> suggestion() const;
  /// Returns a tenth of the rate with the lowest loss, for comparison.
  [[nodiscard]] std::optional<double> tenth_of_minimum() const;
};

inline constexpr double kSmoothing = 0.98;
inline constexpr double kOutOfHand = 4;     // relative to the lowest mean
inline constexpr double kLeastRise = 0.01;  // a smaller rise never counts as divergence
inline constexpr int kFewestRates = 10;

/// Reads the rates that train well from a sweep.
///
/// The sweep ends when the loss is not finite, or when its exponential mean (decay 0.98) exceeds
/// the lowest mean since step `kFewestRates` by three times the magnitude of that mean. The
/// suggestion is read from a Gaussian mean centered on each step, which is 0.15 decades and at
/// least 3 steps wide and has no lag; a loss far above the first losses is clipped to just above
/// them.
///
/// The suggestion is 1.5 times below the rate at which the smoothed loss has made 80 % of its fall,
/// and at least 4.5 times below the rate with the lowest loss, because a constant rate must be
/// stable for a whole training. The range goes from the rate at a quarter of the fall (at most a
/// third of the suggestion) to the rate at 90 % of it (at most a third of the rate with the lowest
/// loss). No rate is suggested for fewer than `kFewestRates` steps, or if the fall does not exceed
/// the noise.
LrCurve read_lr_curve(std::span<const RateStep> steps);

/// Formats a rate with three significant digits: "0.00347", "1.2e-05".
std::string rate_of(double lr);

/// Formats the smoothed losses as rows and a line of bars, and the suggested rates.
std::string lr_curve_text(const LrCurve& curve, const Style& style);
/// Columns: step, lr, loss, smoothed.
std::string lr_curve_csv(const LrCurve& curve);
/// {"points": [...], "diverged_at", "suggestion": {"lr", "low", "high", "steepest",
/// "tenth_of_minimum"}, "remark"}.
Json lr_curve_json(const LrCurve& curve);

}  // namespace trainctl::report
