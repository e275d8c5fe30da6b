#include "report/compare/mean_difference.hpp"

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/student.hpp"

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

Interval around(double middle, double error, double freedom) {
  const double reach = student_quantile(0.975, freedom) * error;
  return {middle - reach, middle + reach};
}

}  // namespace

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
