#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Silu {
  static constexpr auto kSummary = "x times its sigmoid (Elfwing et al. 2017), as torch's SiLU.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Silu>&) {}
};

}  // namespace trainctl::spec::layer
