#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::spec::model {

/// What the vision transformers share.
struct VisionTransformer {
  std::int64_t patch_size = 16;
  double dropout = 0;
  double attention_dropout = 0;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  /// Patches have to cover the image.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(config::Describe<VisionTransformer>& options) {
    options
        .field("dropout", &VisionTransformer::dropout,
               "Probability of dropping a unit: after the position embedding, and at the end of "
               "each block's attention and MLP.")
        .at_least(0)
        .below(1);
    options
        .field("attention_dropout", &VisionTransformer::attention_dropout,
               "Probability of dropping an attention weight.")
        .at_least(0)
        .below(1);
  }
};

}  // namespace trainctl::spec::model
