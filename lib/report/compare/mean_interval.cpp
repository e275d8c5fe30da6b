#include "report/compare/mean_interval.hpp"

#include "base/statistics.hpp"
#include "base/student.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace trainctl::report {

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
  const double reach = student_quantile(0.975, count - 1) * error;
  result.ci95 = Interval{middle - reach, middle + reach};
  return result;
}

MeanInterval paired_interval(std::span<const double> base, std::span<const double> values) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(base.size(), values.size()); ++i)
    differences.push_back(values[i] - base[i]);
  return mean_interval(differences);
}

}  // namespace trainctl::report
