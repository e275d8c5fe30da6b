#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <vector>

namespace trainctl::spec::layer {

/// Its shapes are those of lists of layers: see spec/layers.hpp.
struct Residual {
  static constexpr auto kSummary =
      "Adds what a list of layers makes of the input to the input, or to what a shortcut makes of "
      "it (He et al. 2015).";

  std::vector<config::Stage> layers;
  std::vector<config::Stage> shortcut;

  static void describe(config::Describe<Residual>& options) {
    options
        .stages("layers", &Residual::layers, "layer",
                "The layers of the branch; parameters are named layers.0.weight below its number.")
        .required()
        .not_empty()
        .example("[{type: conv2d, out_channels: 16, kernel_size: 3, padding: 1}]");
    options
        .stages("shortcut", &Residual::shortcut, "layer",
                "Layers between the input and the sum, where the branch changes the shape; empty: "
                "the input itself.")
        .example("[{type: conv2d, out_channels: 32, kernel_size: 1, stride: 2}]");
  }
};

}  // namespace trainctl::spec::layer
