#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Relu {
  static constexpr auto kSummary = "Rectified linear unit, max(0, x), as torch's ReLU.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Relu>&) {}
};

}  // namespace trainctl::spec::layer
