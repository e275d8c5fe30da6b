#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainctl::stages {

class Scope;

/// Rounds numbers as int8 does, with gradients as if it had not (straight-through, 0 outside of the
/// range): PyTorch's FusedMovingAvgObsFakeQuantize. Training steps follow the range of the numbers
/// with a moving average. Returns its input if it has no tensors.
struct FakeQuantize {
  at::Tensor min_val, max_val;           // float32 [channels], or [1] for activations
  at::Tensor scale;                      // float32, like min_val
  at::Tensor zero_point;                 // int32, like min_val
  bool is_weight = false;                // one range per output channel, symmetric
  const stage::RunMode* mode = nullptr;  // of the module

  [[nodiscard]] bool is_on() const { return scale.defined(); }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
};

/// Creates the rounding of a weight with this number of output channels. It is off unless the
/// module in the scope trains for int8.
FakeQuantize make_weight_quantize(const Scope& scope, std::int64_t channels);
/// Creates the rounding of an activation to 7 bits, as in int8 models for x86, in the same way.
FakeQuantize make_activation_quantize(const Scope& scope);

}  // namespace trainctl::stages
