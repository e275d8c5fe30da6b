#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace trainctl::spec::model {

struct Linear {
  static constexpr auto kSummary =
      "One linear layer on the flattened input: multinomial logistic regression.";

  bool bias = true;

  static void describe(config::Describe<Linear>& options) {
    options.field("bias", &Linear::bias, "Adds a learnt bias.");
  }
};

enum class Activation { relu, gelu, tanh, sigmoid };
constexpr std::array<const char*, 4> enum_names(Activation) {
  return {"relu", "gelu", "tanh", "sigmoid"};
}

struct Mlp {
  static constexpr auto kSummary =
      "Fully connected layers with an activation between them, on the flattened input.";

  std::vector<std::int64_t> hidden{128, 64};
  Activation activation = Activation::relu;
  double dropout = 0;

  static void describe(config::Describe<Mlp>& options) {
    options.field("hidden", &Mlp::hidden, "Width of each hidden layer.")
        .at_least(1)
        .at_most(1 << 20);
    options.field("activation", &Mlp::activation, "Activation after each hidden layer.");
    options.field("dropout", &Mlp::dropout, "Probability of dropping a unit after each activation.")
        .at_least(0)
        .below(1);
  }
};

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
