#pragma once

#include <optional>
#include <span>

namespace trainctl {

/// Median and quartiles with linear interpolation (type 7 of Hyndman & Fan, as numpy's default).
/// NaN where empty.
struct Quartiles {
  double q1 = 0;
  double median = 0;
  double q3 = 0;
};

double quantile(std::span<const double> values, double p);
double median(std::span<const double> values);
Quartiles quartiles(std::span<const double> values);
double mean(std::span<const double> values);
/// Of a sample (n - 1 below); NaN for fewer than two values.
double variance(std::span<const double> values);

// Student's t for a handful of repeats, to about 1e-10. No library for it: Debian's Boost.Math
// would bring 100 MB of headers for two functions.

/// `df` above 0; need not be whole (Welch). NaN for a `t` that is no number.
double student_cdf(double t, double df);
/// The t below which a share `p` of the distribution lies, 0 < p < 1.
double student_quantile(double p, double df);

/// Returns the limit that the true standard deviation is below with a likelihood of 80 %, where
/// `deviation` was measured with `df` degrees of freedom. Repeats computed from it keep their power
/// (Browne, Statistics in Medicine 14, 1995). Chi-squared by Wilson & Hilferty (PNAS 17, 1931),
/// within 2 % from two degrees on.
double deviation_limit(double deviation, double df);

/// Returns the likelihood with which the two-sided interval of level 1 - `alpha` around the mean of
/// `pairs` differences, each with the standard deviation `noise`, excludes a bound that is `effect`
/// away, on the right side. Exact for normal differences (noncentral t).
double power_of(double noise, double effect, int pairs, double alpha);

/// The same where the estimate lies `shift` of its errors on the right side of the bound, and the
/// error has `df` degrees of freedom, which need not be whole.
double power_at(double shift, double df, double alpha);

/// The fewest pairs, at least 3, for which power_of() is `power`; nothing beyond `most`, or where
/// `effect` is 0.
struct Aim {
  double power = 0.9;
  double alpha = 0.05;
  int most = 1000;
};
std::optional<int> repeats_for(double noise, double effect, const Aim& aim = {});

}  // namespace trainctl
