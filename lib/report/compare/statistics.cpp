#include "report/compare/statistics.hpp"

#include "base/statistics.hpp"
#include "base/student.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainctl::report {
namespace {

bool usable(double value, Scale scale) {
  return std::isfinite(value) && (scale == Scale::difference || value > 0);
}

double inner(double value, Scale scale) { return scale == Scale::ratio ? std::log(value) : value; }

double outer(double value, Scale scale) { return scale == Scale::ratio ? std::exp(value) : value; }

struct Moments {
  double mean = 0;
  double error = 0;  // of the mean
  double df = 0;
};

void set_interval(Change& change, const Moments& moments, Scale scale, double level) {
  const double reach = student_quantile((1 + level) / 2, moments.df) * moments.error;
  change.interval =
      Interval{outer(moments.mean - reach, scale), outer(moments.mean + reach, scale)};
}

std::vector<double> inner_values(std::span<const double> values, Scale scale) {
  std::vector<double> found;
  for (const double value : values) {
    if (usable(value, scale)) found.push_back(inner(value, scale));
  }
  return found;
}

constexpr std::size_t kFewestWithOutlier = 4;
constexpr std::size_t kMostWithOutlier = 20;  // among more, one changes the mean little
constexpr double kOutlierShare = 0.4;         // of what the interval leaves outside
constexpr double kRounding = 1e-9;            // below it logarithms are the same

/// Drops the value that is furthest from the others where Student's t of its distance to them is
/// beyond what n values without an outlier reach in `(1 - level) * 0.4 / n` of all samples. Returns
/// how many it was.
std::size_t drop_outlier(std::vector<double>& values, double level) {
  const std::size_t count = values.size();
  if (count < kFewestWithOutlier || count > kMostWithOutlier) return 0;
  const double middle = median(values);
  const auto furthest =
      std::ranges::max_element(values, {}, [&](double value) { return std::abs(value - middle); });
  const double suspect = *furthest;
  std::vector<double> others = values;
  others.erase(others.begin() + (furthest - values.begin()));
  const auto n = static_cast<double>(count);
  const double deviation = std::sqrt(variance(others) * (1 + 1 / (n - 1)));
  const double limit = student_quantile(1 - kOutlierShare * (1 - level) / (2 * n * n), n - 2);
  const double distance = std::abs(suspect - mean(others));
  if (!(distance > kRounding && distance > limit * deviation)) return 0;
  values = std::move(others);
  return 1;
}

SideNoise side_of(const std::vector<double>& values) {
  return {values.size() < 2 ? 0 : std::sqrt(variance(values)), values.size()};
}

/// The noise of the mean of a side, and of a single repeat.
struct Welch {
  double error = 0;
  double df = 0;
  double noise = 0;
};

Welch pooled(const std::vector<double>& several, double others) {
  const auto count = static_cast<double>(several.size());
  const double each = variance(several);
  return {std::sqrt(each / count + each / others), count - 1, std::sqrt(2 * each)};
}

Welch welch(const std::vector<double>& base, const std::vector<double>& other) {
  if (base.size() == 1) return pooled(other, 1);
  if (other.size() == 1) return pooled(base, 1);
  const auto bases = static_cast<double>(base.size());
  const auto others = static_cast<double>(other.size());
  const double a = variance(base) / bases;
  const double b = variance(other) / others;
  const double noise = std::sqrt(variance(base) + variance(other));
  if (a + b <= 0) return {0, bases + others - 2, 0};
  // Satterthwaite's degrees of freedom.
  const double df = (a + b) * (a + b) / (a * a / (bases - 1) + b * b / (others - 1));
  return {std::sqrt(a + b), df, noise};
}

}  // namespace

Change paired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                     double level) {
  std::vector<double> pairs;
  for (std::size_t i = 0; i < std::min(base.size(), other.size()); ++i) {
    if (usable(base[i], scale) && usable(other[i], scale))
      pairs.push_back(inner(other[i], scale) - inner(base[i], scale));
  }
  Change change{.repeats = pairs.size()};
  if (scale == Scale::ratio) change.outliers = drop_outlier(pairs, level);
  if (pairs.empty()) return change;
  const double middle = mean(pairs);
  change.value = outer(middle, scale);
  if (pairs.size() < 2) return change;
  change.noise = std::sqrt(variance(pairs));
  change.df = static_cast<double>(pairs.size()) - 1;
  if (pairs.size() < kFewestPairs) return change;
  const double error = change.noise / std::sqrt(static_cast<double>(pairs.size()));
  set_interval(change, {middle, error, change.df}, scale, level);
  return change;
}

Change unpaired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                       double level) {
  std::vector<double> before = inner_values(base, scale);
  std::vector<double> now = inner_values(other, scale);
  const std::size_t repeats = std::min(before.size(), now.size());
  std::size_t outliers = 0;
  if (scale == Scale::ratio) outliers = drop_outlier(before, level) + drop_outlier(now, level);
  Change change{.repeats = repeats,
                .outliers = outliers,
                .apart = true,
                .base_side = side_of(before),
                .now_side = side_of(now)};
  if (before.empty() || now.empty()) return change;
  const double middle = mean(now) - mean(before);
  change.value = outer(middle, scale);
  if (before.size() < 2 && now.size() < 2) return change;
  const Welch noise = welch(before, now);
  change.noise = noise.noise;
  change.df = noise.df;
  if (std::max(before.size(), now.size()) < kFewestPairs) return change;
  set_interval(change, {middle, noise.error, noise.df}, scale, level);
  return change;
}

}  // namespace trainctl::report
