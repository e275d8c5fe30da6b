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

  static void describe(config::Describe<Pool2d>& options);
};

struct MaxPool2d : Pool2d {
  static constexpr auto kSummary = "Highest value of each square window, as torch's MaxPool2d.";

  static void describe(config::Describe<MaxPool2d>& options) { options.include<Pool2d>(); }
};

struct AvgPool2d : Pool2d {
  static constexpr auto kSummary = "Mean value of each square window, as torch's AvgPool2d.";

  static void describe(config::Describe<AvgPool2d>& options) { options.include<Pool2d>(); }
};

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
