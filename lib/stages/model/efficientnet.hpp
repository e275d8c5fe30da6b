#pragma once

#include "spec/model/efficientnet.hpp"
#include "stage/stages.hpp"

#include <memory>
#include <string>

namespace trainctl::stages {

/// What B0 is scaled by.
struct EfficientnetPlan {
  std::string name;
  double width = 1;
  double depth = 1;
};

/// EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks (Tan & Le 2019,
/// arXiv:1905.11946) with torchvision's names, weights of a seed and logits.
std::unique_ptr<stage::Model> make_efficientnet(const EfficientnetPlan& plan,
                                                const spec::model::Efficientnet& options,
                                                const stage::ModelContext& context);

}  // namespace trainctl::stages
