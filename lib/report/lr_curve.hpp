#pragma once

#include "base/json.hpp"
#include "report/format.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

// The learning-rate range test (Smith 2015, arXiv:1506.01186), as fastai and Lightning read it:
// pure functions of the losses of a run whose rate rises with every step.

namespace trainctl::report {

/// A step of the sweep.
struct RateStep {
  double lr = 0;
  double loss = 0;
};

struct SmoothedStep {
  double lr = 0;
  double loss = 0;
  double smoothed = 0;  // exponential mean of the losses so far
};

/// What the sweep tells.
struct LrCurve {
  std::vector<SmoothedStep> steps;    // up to where the loss went out of hand
  std::optional<double> diverged_at;  // the rate of the first step that is left out
  std::optional<double> steepest;     // where the smoothed loss falls fastest
  std::optional<double> minimum;      // where it is lowest
  std::string remark;                 // why nothing is suggested, or what to try; may be empty
  [[nodiscard]] std::optional<double> tenth_of_minimum() const;
};

inline constexpr double kSmoothing = 0.98;
inline constexpr double kOutOfHand = 4;     // times the lowest mean, but
inline constexpr double kLeastRise = 0.01;  // a lower rise above it is never too high
inline constexpr int kFewestRates = 10;
/// Means with a decay of 0.98 and Adam's bias correction; ends before a loss that is not finite and
/// where the mean exceeds its lowest value by three times its magnitude. The first means are those
/// of a few losses: the lowest is looked for from the one of `kFewestRates` on. Nothing is
/// suggested where fewer steps are left, or where the loss nowhere falls.
LrCurve read_lr_curve(std::span<const RateStep> steps);

/// A rate in three digits, as it is proposed and typed: "0.00347", "1.2e-05".
std::string rate_of(double lr);

/// The smoothed losses as a line of bars and as rows, and the rates that are suggested.
std::string lr_curve_text(const LrCurve& curve, const Style& style);
/// step, lr, loss, smoothed.
std::string lr_curve_csv(const LrCurve& curve);
/// {"points": [...], "diverged_at", "suggestion": {"steepest", "tenth_of_minimum"}, "remark"}.
Json lr_curve_json(const LrCurve& curve);

}  // namespace trainctl::report
