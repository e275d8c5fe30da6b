#pragma once

#include "config/schema/describe.hpp"
#include "spec/model/mlp.hpp"
#include "spec/sample.hpp"

#include <cstdint>

namespace trainctl::spec::model {

struct Lenet {
  static constexpr auto kSummary =
      "LeNet-5 (LeCun et al. 1998): two convolutions with pooling, three linear layers.";

  Activation activation = Activation::relu;

  /// 32x32 as in the paper, or 28x28, which the first convolution pads to it.
  static constexpr bool takes(std::int64_t height, std::int64_t width) {
    return height == width && (height == 28 || height == 32);
  }

  static constexpr bool takes(Inputs inputs) { return inputs == Inputs::images; }

  static void describe(config::Describe<Lenet>& options) {
    options.field("activation", &Lenet::activation, "Activation after each layer but the last.");
  }
};

}  // namespace trainctl::spec::model
