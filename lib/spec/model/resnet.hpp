#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

namespace trainctl::spec::model {

/// The options that all sizes share.
struct Resnet {
  bool zero_init_residual = false;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }

  static void describe(config::Describe<Resnet>& options) {
    options.field("zero_init_residual", &Resnet::zero_init_residual,
                  "Starts the last batch normalisation of each residual unit at 0, so that every "
                  "unit begins as the identity (Goyal et al. 2017).");
  }
};

}  // namespace trainctl::spec::model
