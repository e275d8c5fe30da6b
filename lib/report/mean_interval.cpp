#include "report/mean_interval.hpp"

#include "base/error.hpp"
#include "base/stats.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace trainctl::report {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  constexpr int kMostTerms = 10'000;
  const auto above_0 = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / above_0(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double m = i;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / above_0(1 + even * d);
    c = above_0(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / above_0(1 + odd * d);
    c = above_0(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return fraction;
}

/// The regularised incomplete beta function.
double beta_share(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast on one side of this point only.
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// The probability of a value above t, which is not negative.
double upper_tail(double t, double degrees) {
  return 0.5 * beta_share(degrees / 2, 0.5, degrees / (degrees + t * t));
}

}  // namespace

double student_t_quantile(double p, double degrees) {
  ASSERT(p > 0 && p < 1 && degrees > 0);
  const double tail = std::min(p, 1 - p);
  double low = 0;
  double high = 1;
  while (upper_tail(high, degrees) > tail) high *= 2;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (upper_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return p < 0.5 ? -high : high;
}

MeanInterval mean_interval(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  MeanInterval result{.count = finite.size(), .mean = {}, .ci95 = {}};
  if (finite.empty()) return result;
  const double middle = mean(finite);
  result.mean = middle;
  if (finite.size() < 2) return result;
  double squares = 0;
  for (const double value : finite) squares += (value - middle) * (value - middle);
  const auto count = static_cast<double>(finite.size());
  const double error = std::sqrt(squares / (count - 1) / count);
  const double reach = student_t_quantile(0.975, count - 1) * error;
  result.ci95 = Interval{middle - reach, middle + reach};
  return result;
}

MeanInterval paired_difference(std::span<const double> base, std::span<const double> values) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(base.size(), values.size()); ++i)
    differences.push_back(values[i] - base[i]);
  return mean_interval(differences);
}

}  // namespace trainctl::report
