#pragma once

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

}  // namespace trainctl
