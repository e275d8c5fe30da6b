#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <functional>
#include <numeric>

namespace trainctl::spec::layer {

struct Flatten {
  static constexpr auto kSummary = "All numbers of a sample in one row, as torch's Flatten.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) {
    const Shape& shape = input.shape;
    return {{std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())},
            {},
            {}};
  }
  static void describe(config::Describe<Flatten>&) {}
};

}  // namespace trainctl::spec::layer
