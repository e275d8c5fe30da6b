#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <optional>

namespace trainctl::spec::layer {

/// What max_pool2d and avg_pool2d share.
struct Pool2d {
  std::int64_t kernel_size = 0;
  std::optional<std::int64_t> stride;
  std::int64_t padding = 0;

  [[nodiscard]] std::int64_t step() const { return stride.value_or(kernel_size); }
  [[nodiscard]] LayerStep after(const LayerInput& input) const;

  static void describe(config::Describe<Pool2d>& options);  // pool2d.cpp
};

}  // namespace trainctl::spec::layer
