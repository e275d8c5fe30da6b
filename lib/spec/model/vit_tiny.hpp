#pragma once

#include "spec/model/vision_transformer.hpp"

namespace trainctl::spec::model {

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
