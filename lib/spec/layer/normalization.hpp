#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <fmt/format.h>

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

struct LayerNorm {
  static constexpr auto kSummary =
      "Each sample's last extents by their mean and deviation (Ba et al. 2016), as torch's "
      "LayerNorm.";

  std::int64_t dims = 1;
  double eps = 1e-5;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    const auto extents = static_cast<std::int64_t>(input.shape.size());
    if (dims <= extents) return {input.shape, {}, {}};
    return {input.shape, fmt::format("it has no {} extents to normalise", dims),
            fmt::format("write 'dims: {}' or less", extents)};
  }
  static void describe(config::Describe<LayerNorm>& options) {
    options
        .field("dims", &LayerNorm::dims,
               "How many of the last extents make one mean; 3: the whole of an image.")
        .at_least(1)
        .at_most(8);
    options.field("eps", &LayerNorm::eps, "Added to the variance.").above(0);
  }
};

}  // namespace trainctl::spec::layer
