#pragma once

#include <optional>
#include <span>
#include <vector>

namespace trainctl {

/// Median and quartiles with linear interpolation (type 7 of Hyndman & Fan, numpy's default). NaN
/// if there are no values.
struct Quartiles {
  double q1 = 0;
  double median = 0;
  double q3 = 0;
};

double quantile(std::span<const double> values, double p);
double median(std::span<const double> values);
Quartiles quartiles(std::span<const double> values);
double mean(std::span<const double> values);
/// Returns the sample variance (divided by n - 1); NaN for fewer than two values.
double variance(std::span<const double> values);

/// The distribution of values that are finite: counts of bins of equal width from `min` to `max`.
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> counts;  // empty: there are no values; one bin: all values are equal
};
/// Returns a histogram with 30 bins.
Histogram histogram_of(std::span<const double> values);
Histogram histogram_of(std::span<const float> values);

// Student's t distribution for small samples is computed here, with an error of about 1e-10, since
// Debian's Boost.Math would add 100 MB of headers for two functions.

/// Returns P(T <= t). `df` is above 0 and need not be an integer (Welch). NaN if `t` is NaN.
double student_cdf(double t, double df);
/// Returns the t for which student_cdf() is `p`, 0 < p < 1.
double student_quantile(double p, double df);

/// Returns an upper limit of the true standard deviation with 80 % confidence, where `deviation`
/// was measured with `df` degrees of freedom. A number of repeats that is computed from it keeps
/// its power (Browne, Statistics in Medicine 14, 1995). The chi-squared quantile is approximated
/// (Wilson & Hilferty, PNAS 17, 1931), within 2 % for two or more degrees of freedom.
double deviation_limit(double deviation, double df);

/// Returns the probability that the two-sided confidence interval of level 1 - `alpha` around the
/// mean of `pairs` differences, each with the standard deviation `noise`, excludes a bound at a
/// distance of `effect`, on the correct side. Exact for normal differences (noncentral t).
double power_of(double noise, double effect, int pairs, double alpha);

/// Returns the same probability for an estimate that lies `shift` standard errors from the bound,
/// on the correct side, with `df` degrees of freedom for the error, which need not be an integer.
double power_at(double shift, double df, double alpha);

/// The target of repeats_for(). `most` is the largest number of pairs that is tried.
struct Aim {
  double power = 0.9;
  double alpha = 0.05;
  int most = 1000;
};
/// Returns the fewest pairs, at least 3, for which power_of() reaches `aim.power`; empty if that
/// takes more than `aim.most` pairs, or if `effect` is 0.
std::optional<int> repeats_for(double noise, double effect, const Aim& aim = {});

}  // namespace trainctl
