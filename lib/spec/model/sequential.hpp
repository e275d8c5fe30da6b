#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <vector>

namespace trainctl::spec::model {

struct Sequential {
  static constexpr auto kSummary =
      "A network written as a list of layers, each fed with the output of the one before it.";

  std::vector<config::Stage> layers;

  [[nodiscard]] static bool takes(Inputs /*inputs*/) { return true; }
  /// Follows the shape of a sample through the layers, as far as they could be read.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(config::Describe<Sequential>& options) {
    options
        .stages("layers", &Sequential::layers, "layer",
                "The layers in their order; parameters are named by their number: 0.weight.")
        .required()
        .not_empty()
        .example("[flatten, {type: linear, out_features: 64}, relu, linear]");
  }
};

}  // namespace trainctl::spec::model
