#pragma once

#include "spec/model/resnet.hpp"
#include "stage/stages.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace trainctl::stages {

enum class ResidualKind { basic, bottleneck };

/// What the networks of this family differ in.
struct ResnetPlan {
  std::string name;
  ResidualKind kind = ResidualKind::basic;
  std::array<std::int64_t, 4> depths{};  // units of each stage
  std::int64_t squeeze_ratio = 0;        // 0: without squeeze-and-excitation
};

/// Deep Residual Learning for Image Recognition (He et al. 2015, arXiv:1512.03385) with
/// torchvision's names, weights of a seed and logits.
std::unique_ptr<stage::Model> make_resnet(const ResnetPlan& plan,
                                          const spec::model::Resnet& options,
                                          const stage::ModelContext& context);

}  // namespace trainctl::stages
