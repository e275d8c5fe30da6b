#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Tanh {
  static constexpr auto kSummary = "Hyperbolic tangent, as torch's Tanh.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Tanh>&) {}
};

}  // namespace trainctl::spec::layer
