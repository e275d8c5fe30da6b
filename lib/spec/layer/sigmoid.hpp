#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Sigmoid {
  static constexpr auto kSummary = "1 / (1 + exp(-x)), as torch's Sigmoid.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Sigmoid>&) {}
};

}  // namespace trainctl::spec::layer
