#pragma once

#include "report/compare/statistics.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace trainctl::report {

/// How many times as fast `other` is as `base`; nothing where no pair of repeats can be compared.
struct Speedup {
  std::optional<double> value;   // geometric mean of the paired ratios
  std::optional<Interval> ci95;  // of that mean; needs 3 pairs
  std::size_t pairs = 0;
};

/// Repeats are paired in their order, see paired_change(). A pair with a time that is not above 0
/// and finite is left out.
Speedup speedup(std::span<const double> base_s, std::span<const double> other_s);

}  // namespace trainctl::report
