#pragma once

#include "stages/model/blocks/conv2d.hpp"
#include "stages/model/blocks/nonlinearity.hpp"

namespace trainctl::stages {

enum class Gate { sigmoid, hardsigmoid };

struct SqueezePlan {
  std::int64_t channels = 0;
  std::int64_t squeezed = 0;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;
};

/// Squeeze-and-excitation (Hu et al. 2017): scales each channel by a gate that two 1x1 convolutions
/// make from the means of all channels. The names are torchvision's and timm's: "fc1", "fc2".
struct SqueezeExcitation {
  Conv2d fc1;
  Conv2d fc2;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;

  /// The caller gives x away: outside training it is scaled in place.
  [[nodiscard]] at::Tensor operator()(at::Tensor x_nchw) const;
};

SqueezeExcitation make_squeeze_excitation(const Scope& scope, const SqueezePlan& plan);

}  // namespace trainctl::stages
