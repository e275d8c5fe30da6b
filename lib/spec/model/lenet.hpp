#pragma once

#include "config/describe.hpp"
#include "spec/model/mlp.hpp"

namespace trainctl::spec::model {

struct Lenet {
  static constexpr auto kSummary = "LeNet-5 (LeCun et al. 1998): two convolutions with pooling, three linear layers.";

  Activation activation = Activation::relu;

  static void describe(config::Describe<Lenet>& options) {
    options.field("activation", &Lenet::activation, "Activation after each layer but the last.");
  }
};

}  // namespace trainctl::spec::model
