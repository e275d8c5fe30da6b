#pragma once

#include "spec/model/mobilenet.hpp"
#include "stage/stages.hpp"
#include "stages/model/blocks/nonlinearity.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::stages {

enum class Squeeze { with, without };

/// A row of the paper's tables 1 and 2.
struct MobilenetV3Row {
  std::int64_t in = 0;
  std::int64_t kernel = 3;
  std::int64_t expanded = 0;
  std::int64_t out = 0;
  Squeeze squeeze = Squeeze::without;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  std::int64_t stride = 1;
};

struct MobilenetV3Plan {
  std::string name;
  std::vector<MobilenetV3Row> blocks;
  std::int64_t last_channels = 0;
};

/// Searching for MobileNetV3 (Howard et al. 2019, arXiv:1905.02244) with torchvision's names,
/// weights of a seed and logits.
std::unique_ptr<stage::Model> make_mobilenet_v3(const MobilenetV3Plan& plan,
                                                const spec::model::Mobilenet& options,
                                                const stage::ModelContext& context);

}  // namespace trainctl::stages
