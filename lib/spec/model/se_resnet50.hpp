#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct SeResnet50 : Resnet {
  static constexpr auto kSummary =
      "SE-ResNet-50 (Hu et al. 2017): ResNet-50 with squeeze-and-excitation in each unit; timm's "
      "names.";

  static void describe(config::Describe<SeResnet50>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
