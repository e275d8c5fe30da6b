#include "report/mean_difference.hpp"

#include "base/error.hpp"
#include "base/stats.hpp"

#include <cmath>
#include <vector>

namespace trainctl::report {
namespace {

/// Of the sample, with n - 1.
double variance(std::span<const double> values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / static_cast<double>(values.size() - 1);
}

/// The continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8), by Lentz.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto kept = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / kept(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / kept(1 + even * d);
    c = kept(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / kept(1 + odd * d);
    c = kept(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return fraction;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// P(T <= t) of t >= 0.
double student_probability(double t, double freedom) {
  return 1 - 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

Interval around(double middle, double error, double freedom) {
  const double reach = student_quantile(0.975, freedom) * error;
  return {middle - reach, middle + reach};
}

}  // namespace

double student_quantile(double p, double freedom) {
  ASSERT(p >= 0.5 && p < 1 && freedom > 0);
  double low = 0;
  double high = 1;
  while (student_probability(high, freedom) < p && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_probability(middle, freedom) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

MeanDifference paired_difference(std::span<const double> base, std::span<const double> other) {
  ASSERT(base.size() == other.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) differences.push_back(other[i] - base[i]);
  MeanDifference found{.base = mean(base),
                       .other = mean(other),
                       .difference = mean(differences),
                       .ci95 = std::nullopt,
                       .paired = true};
  const auto n = static_cast<double>(differences.size());
  if (n >= 2) found.ci95 = around(found.difference, std::sqrt(variance(differences) / n), n - 1);
  return found;
}

MeanDifference unpaired_difference(std::span<const double> base, std::span<const double> other) {
  MeanDifference found{.base = mean(base), .other = mean(other), .ci95 = std::nullopt};
  found.difference = found.other - found.base;
  if (base.size() < 2 || other.size() < 2) return found;
  const auto n = static_cast<double>(base.size());
  const auto m = static_cast<double>(other.size());
  const double a = variance(base) / n;
  const double b = variance(other) / m;
  if (a + b <= 0) {
    found.ci95 = Interval{found.difference, found.difference};
    return found;
  }
  const double freedom = (a + b) * (a + b) / (a * a / (n - 1) + b * b / (m - 1));
  found.ci95 = around(found.difference, std::sqrt(a + b), freedom);
  return found;
}

}  // namespace trainctl::report
