#pragma once

#include "stages/optimizer/fused.hpp"

namespace trainctl::stages {

struct Dampening {
  double momentum = 0;
  double dampening = 0;
};

/// A step of SGD whose momentum is dampened from a parameter's second step on. Which of them have
/// taken their first is known to the device alone: `started` (bool [members], there), marked for
/// those that take this one. The group's only state is the momentum. The fused kernel has one
/// switch for a whole list, set by the host.
void dampened_step(const ParameterGroup& group, const at::Tensor& started,
                   const Dampening& dampening);

}  // namespace trainctl::stages
