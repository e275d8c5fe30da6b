#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainctl::device {

/// A batch on the device. The feed owns the tensors, which are valid until its next `put`.
struct DeviceBatch {
  at::Tensor inputs;   // float32 [N, C, H, W] for images, float32 [N, ...] for rows, int64 [N, T]
                       // for tokens
  at::Tensor targets;  // int64 [N] for classes, float32 [N, K] for numbers, int64 [N, T] for tokens
  at::Tensor targets_b;           // int64 [N] of a mixed batch: classes of the partner rows
  at::Tensor lambda;              // float32 [N] of a mixed batch: share of the row's own class
  std::int64_t valid = 0;         // rows of this rank that are not padding
  std::int64_t global_valid = 0;  // over all ranks
};

/// Returns the batch with `change` applied to each defined tensor.
template <class Change>
DeviceBatch with_tensors(DeviceBatch batch, const Change& change) {
  for (at::Tensor* tensor : {&batch.inputs, &batch.targets, &batch.targets_b, &batch.lambda}) {
    if (tensor->defined()) *tensor = change(*tensor);
  }
  return batch;
}

}  // namespace trainctl::device
