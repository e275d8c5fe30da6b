#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Linear {
  static constexpr auto kSummary =
      "Fully connected layer on the last extent of its input, as torch's Linear.";

  config::Auto<std::int64_t> out_features;
  bool bias = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    Shape shape = input.shape;
    shape.back() = out_features.value_or(input.outputs);
    return {shape, {}, {}};
  }
  static void describe(config::Describe<Linear>& options) {
    options
        .field("out_features", &Linear::out_features,
               "Numbers of its output; auto: those that the data asks for, one a class.")
        .at_least(1)
        .at_most(1 << 24)
        .example("64");
    options.field("bias", &Linear::bias, "Adds a learnt bias.");
  }
};

}  // namespace trainctl::spec::layer
