#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::transform {

struct GaussianBlur {
  static constexpr auto kSummary =
      "Blurs with a Gauss curve of random width, as torchvision's GaussianBlur.";

  config::OneOrMore<int> kernel_size;
  config::OneOrMore<double> sigma{{0.1, 2.0}};

  static void describe(config::Describe<GaussianBlur>& options) {
    options
        .field("kernel_size", &GaussianBlur::kernel_size,
               "Width and height of the kernel in pixels, odd; one number for a square.")
        .required()
        .at_least(1)
        .at_most(511)
        .example("23");
    options
        .field("sigma", &GaussianBlur::sigma,
               "Standard deviation in pixels: one number, or the smallest and largest.")
        .at_least(1e-3)
        .at_most(1e4)
        .example("[0.1, 2.0]");
  }
};

}  // namespace trainctl::spec::transform
