#pragma once

#include "report/compare/speedup.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace trainctl::report {

/// A mean and where the true one lies, as far as a few values can tell.
struct MeanInterval {
  std::size_t count = 0;         // values that are finite
  std::optional<double> mean;    // absent: there are none
  std::optional<Interval> ci95;  // Student's, of normal values; needs two of them
};

/// Values that are not finite are left out.
MeanInterval mean_interval(std::span<const double> values);

/// Of `values` minus `base`, pair by pair; pairs with a value that is not finite are left out.
MeanInterval paired_interval(std::span<const double> base, std::span<const double> values);

}  // namespace trainctl::report
