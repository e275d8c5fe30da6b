#pragma once

#include "stage/stages.hpp"

#include <vector>

namespace trainctl::stages {

/// What becomes of the linear layers that nn.Linear drew.
enum class LinearDraw {
  keep,     // ResNet
  normal,   // N(0, 0.01): MobileNet
  uniform,  // +-1/sqrt(outputs): EfficientNet
};

/// The last lines of torchvision's constructors: the weights of convolutions are drawn anew by
/// kaiming_normal_ (mode fan_out), linear ones as `linear` says, and their biases become 0. In the
/// order of the parameters, from the global CPU generator, so that a seed gives torchvision's
/// weights.
void initialise(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear);

}  // namespace trainctl::stages
