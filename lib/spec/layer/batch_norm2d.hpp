#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct BatchNorm2d {
  static constexpr auto kSummary =
      "Each channel of images by its mean and deviation over the batch (Ioffe & Szegedy 2015), as "
      "torch's BatchNorm2d.";

  double eps = 1e-5;
  double momentum = 0.1;

  [[nodiscard]] static LayerStep after(const LayerInput& input) {
    if (input.shape.size() != 3) return no_image();
    return {input.shape, {}, {}};
  }
  static void describe(config::Describe<BatchNorm2d>& options) {
    options.field("eps", &BatchNorm2d::eps, "Added to the variance.").above(0);
    options
        .field("momentum", &BatchNorm2d::momentum,
               "Share of each batch in the running mean and variance that evaluation uses.")
        .at_least(0)
        .at_most(1);
  }
};

}  // namespace trainctl::spec::layer
