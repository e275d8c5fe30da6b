#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::train {

/// The states of the generators that draw by default: "cpu" and, on a GPU, "cuda" of that device.
/// Copies, uint8 on the host: dropout and the like go on alike once they are set.
std::vector<stage::NamedTensor> random_states(at::Device device);

/// Throws Error(checkpoint) where one is missing, another one is there, or it is no state of that
/// generator.
void set_random_states(at::Device device, const std::vector<stage::NamedTensor>& states);

}  // namespace trainctl::train
