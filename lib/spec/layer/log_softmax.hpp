#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct LogSoftmax {
  static constexpr auto kSummary =
      "Log-probabilities over the last dimension, as torch's LogSoftmax: what nll takes.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<LogSoftmax>&) {}
};

}  // namespace trainctl::spec::layer
