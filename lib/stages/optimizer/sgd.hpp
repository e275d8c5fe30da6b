#pragma once

#include "stages/optimizer/fused.hpp"

namespace trainctl::stages {

struct Dampening {
  double momentum = 0;
  double dampening = 0;
};

/// Runs a step of SGD whose momentum is dampened from a parameter's second step on. Only the device
/// knows which parameters have had their first step: `started` (bool [members], on the device),
/// which this call updates. The group's only state is the momentum. The fused kernel cannot be
/// used: it has one switch for a whole list, set by the host.
void run_dampened_step(const ParameterGroup& group, const at::Tensor& started,
                       const Dampening& dampening);

}  // namespace trainctl::stages
