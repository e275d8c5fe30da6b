#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace trainctl::spec::model {

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

}  // namespace trainctl::spec::model
