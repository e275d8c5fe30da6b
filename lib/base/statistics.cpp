#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

namespace trainctl {

double quantile(std::span<const double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

Quartiles quartiles(std::span<const double> values) {
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

double mean(std::span<const double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double variance(std::span<const double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / static_cast<double>(values.size() - 1);
}

namespace {

constexpr int kFewestPairs = 3;
constexpr double kTiny = 1e-300;

// std::lgamma writes a global variable and is not thread-safe.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// Evaluates the continued fraction of the incomplete beta function by Lentz's method ("Numerical
// Recipes", 3rd edition, section 6.4), in about sqrt(max(a, b)) steps if x < (a+1) / (a+b+2).
double beta_fraction(double x, double a, double b) {
  const auto nonzero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return fraction;
}

// Returns the regularized incomplete beta function. `y` is 1 - x, passed separately since it would
// lose digits for x near 1.
double incomplete_beta(double x, double y, double a, double b) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front =
      std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(y, b, a) / b;
}

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double student_density(double t, double df) {
  return std::exp(log_gamma((df + 1) / 2) - log_gamma(df / 2) -
                  (df + 1) / 2 * std::log1p(t * t / df)) /
         std::sqrt(df * std::numbers::pi);
}

template <class Number>
Histogram histogram(std::span<const Number> values) {
  constexpr std::size_t kBins = 30;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Histogram found{.min = kInfinity, .max = -kInfinity};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    found.min = std::min(found.min, value);
    found.max = std::max(found.max, value);
    found.num += 1;
    found.sum += value;
    found.sum_squares += value * value;
  }
  if (found.num == 0) return {};
  found.counts.resize(found.min < found.max ? kBins : 1);
  const auto bins = static_cast<double>(found.counts.size());
  const double width = (found.max - found.min) / bins;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const double place = width > 0 ? (value - found.min) / width : 0;
    found.counts[static_cast<std::size_t>(std::clamp(place, 0.0, bins - 1))] += 1;
  }
  return found;
}

}  // namespace

Histogram histogram_of(std::span<const double> values) { return histogram(values); }
Histogram histogram_of(std::span<const float> values) { return histogram(values); }

double student_cdf(double t, double df) {
  if (std::isnan(t) || !(df > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  const double square = t * t;
  const double tail = incomplete_beta(df / (df + square), square / (df + square), df / 2, 0.5) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double p, double df) {
  if (!(p > 0 && p < 1 && df > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (p < 0.5) return -student_quantile(1 - p, df);
  // Above 0 the distribution function is concave: Newton's method from 0 never overshoots.
  double t = 0;
  for (int i = 0; i < 1000; ++i) {
    const double step = (p - student_cdf(t, df)) / student_density(t, df);
    t += step;
    if (step <= 1e-12 * (1 + t)) break;
  }
  return t;
}

double deviation_limit(double deviation, double df) {
  constexpr double kNormalQuantile = -0.8416212335729143;  // quantile of 0.2
  const double spread = 2 / (9 * df);
  const double root = 1 - spread + kNormalQuantile * std::sqrt(spread);
  return deviation / std::sqrt(root * root * root);
}

double power_of(double noise, double effect, int pairs, double alpha) {
  if (pairs < 2 || !(effect > 0)) return 0;
  if (noise <= 0) return 1;
  return power_at(effect / noise * std::sqrt(static_cast<double>(pairs)), pairs - 1, alpha);
}

double power_at(double shift, double df, double alpha) {
  const double t = student_quantile(1 - alpha / 2, df);
  // Integrates over the possible sample standard deviations with Simpson's rule.
  constexpr int kParts = 200;
  const double constant = std::log(2.0) + df / 2 * std::log(df / 2) - log_gamma(df / 2);
  const auto density = [&](double s) {  // df s^2 is chi-squared with df degrees of freedom
    return std::exp(constant + (df - 1) * std::log(s) - df * s * s / 2);
  };
  const double reach = 9 / std::sqrt(2 * df);
  const double from = std::max(1e-9, 1 - reach);
  const double width = (1 + reach - from) / kParts;
  double sum = 0;
  for (int i = 0; i <= kParts; ++i) {
    const double s = from + i * width;
    const double weight = i == 0 || i == kParts ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * normal_cdf(shift - t * s) * density(s);
  }
  return std::clamp(sum * width / 3, 0.0, 1.0);
}

std::optional<int> repeats_for(double noise, double effect, const Aim& aim) {
  const auto suffices = [&](int pairs) {
    return power_of(noise, effect, pairs, aim.alpha) >= aim.power;
  };
  if (suffices(kFewestPairs)) return kFewestPairs;
  if (!suffices(aim.most)) return std::nullopt;
  int low = kFewestPairs;  // too few
  int high = aim.most;     // enough
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace trainctl
