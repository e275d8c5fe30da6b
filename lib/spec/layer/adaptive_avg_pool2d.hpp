#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct AdaptiveAvgPool2d {
  static constexpr auto kSummary =
      "Mean values over as many windows as the output has places, as torch's AdaptiveAvgPool2d.";

  std::int64_t output_size = 1;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    if (input.shape.size() != 3) return no_image();
    return {{input.shape[0], output_size, output_size}, {}, {}};
  }
  static void describe(config::Describe<AdaptiveAvgPool2d>& options) {
    options
        .field("output_size", &AdaptiveAvgPool2d::output_size,
               "Height and width of the output; 1: the mean of each channel.")
        .at_least(1)
        .at_most(1 << 16);
  }
};

}  // namespace trainctl::spec::layer
