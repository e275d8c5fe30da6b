#pragma once

#include "spec/model/vision_transformer.hpp"

namespace trainctl::spec::model {

struct VitB16 : VisionTransformer {
  static constexpr auto kSummary =
      "Vision transformer, base size, with patches of 16x16 (Dosovitskiy et al. 2020), as "
      "torchvision's vit_b_16.";

  static void describe(config::Describe<VitB16>& options) { options.include<VisionTransformer>(); }
};

}  // namespace trainctl::spec::model
