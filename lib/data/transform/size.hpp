#pragma once

#include "base/error.hpp"
#include "data/image/image.hpp"

#include <vector>

namespace trainctl::data {

/// Reads `size: 224` or `size: [height, width]`. Throws Error(config).
inline Extents size_of_options(const std::vector<int>& values) {
  ENSURE(config, values.size() == 1 || values.size() == 2,
         "size has {} values; write size: 224 for a square, or size: [height, width]",
         values.size());
  return {values.front(), values.back()};
}

}  // namespace trainctl::data
