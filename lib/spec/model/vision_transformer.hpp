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

struct VitB16 : VisionTransformer {
  static constexpr auto kSummary =
      "Vision transformer, base size, with patches of 16x16 (Dosovitskiy et al. 2020), as "
      "torchvision's vit_b_16.";

  static void describe(config::Describe<VitB16>& options) { options.include<VisionTransformer>(); }
};

struct VitTiny : VisionTransformer {
  static constexpr auto kSummary =
      "Vision transformer of DeiT's tiny size: 192 wide, 12 deep, 3 heads (Touvron et al. 2020).";

  static void describe(config::Describe<VitTiny>& options) {
    options
        .field("patch_size", static_cast<std::int64_t VitTiny::*>(&VitTiny::patch_size),
               "Height and width of a patch; 4 suits images of 32x32.")
        .at_least(1)
        .at_most(1024);
    options.include<VisionTransformer>();
  }
};

}  // namespace trainctl::spec::model
