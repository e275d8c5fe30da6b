#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <vector>

namespace trainctl::data {

/// What a number is drawn from.
struct Range {
  double low = 0;
  double high = 0;
};

/// torchvision's way to give angles: x for -x to x, or the smallest and the largest, from `first`
/// on.
inline Range angles(const char* name, const std::vector<double>& values, std::size_t first = 0) {
  if (values.size() == 1) {
    ENSURE(config, values[0] >= 0,
           "{} is {}; a single number stands for -x to x and must not be negative", name,
           values[0]);
    return {-values[0], values[0]};
  }
  ENSURE(config, values.size() >= first + 2,
         "{} has {} values; give one, or the smallest and the largest", name, values.size());
  ENSURE(config, values[first] <= values[first + 1],
         "{} is [{}, {}]; write the smaller number first", name, values[first], values[first + 1]);
  return {values[first], values[first + 1]};
}

}  // namespace trainctl::data
