#pragma once

#include "report/compare/speedup.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace trainctl::report {

/// How far the mean of `other` is from that of `base`.
struct MeanDifference {
  double base = 0;  // means
  double other = 0;
  double difference = 0;         // other - base
  std::optional<Interval> ci95;  // of the difference; needs two values on each side
  bool paired = false;
};

/// Student's interval of the differences of pairs; both are of the same size.
MeanDifference paired_difference(std::span<const double> base, std::span<const double> other);
/// Welch's interval, where the values of the two have nothing to do with each other.
MeanDifference unpaired_difference(std::span<const double> base, std::span<const double> other);

}  // namespace trainctl::report
