#pragma once

#include "dist/grad_sync.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::dist {

/// A parameter whose gradient is synchronized.
struct SyncParameter {
  std::string name;
  at::Tensor tensor;
};

/// The gradients of one bucket with PowerSGD (Vogels et al. 2019, algorithms 1 and 2). For a matrix
/// M, which is this rank's gradient plus its error, P = M Q is averaged and orthonormalized, then Q
/// = M^T P is averaged, and P Q^T approximates the average of M. The error, M minus the
/// approximation, is added to the next gradient. Vectors, and matrices whose factors would have
/// more than half as many elements, are averaged without compression. A non-finite gradient
/// invalidates the step but not the stored state.
class PowerSgdBucket {
 public:
  PowerSgdBucket(const std::vector<SyncParameter>& parameters, std::int64_t rank);

  /// Returns the tensor to all-reduce in place before `second`. `gradients` belong to the
  /// parameters and are dense views into the bucket.
  at::Tensor first(std::vector<at::Tensor> gradients, int world_size);
  /// Returns whether there is a second all-reduce.
  [[nodiscard]] bool has_second() const { return !matrices_.empty(); }
  /// Returns the tensor to all-reduce in place before `finish`. Must be called even without a
  /// second all-reduce; the result is then empty.
  at::Tensor second(int world_size);
  /// Returns whether all sums are finite: bool, 0-d, equal on every rank.
  [[nodiscard]] at::Tensor sound() const;
  /// Writes the averages into the gradients. The stored state changes only if `sound`, which covers
  /// all buckets, because a step is skipped as a whole.
  void finish(const at::Tensor& sound);

  /// Returns the bytes of both all-reduces.
  [[nodiscard]] std::int64_t sent_bytes() const;
  /// Appends "fc1.weight.q" and "fc1.weight.error" of each matrix.
  void add_state(std::vector<SyncTensor>& all) const;

 private:
  struct Matrix {
    std::size_t index;  // of the gradient
    std::string name;
    at::Tensor start;  // [columns, rank]: initial Q, which also replaces columns that have become 0
    at::Tensor q;      // [columns, rank], from the last average
    at::Tensor error;  // [rows, columns]
    at::Tensor m;      // [rows, columns], of the current step
    at::Tensor p, next_q;  // views of the all-reduced tensors
  };
  struct Other {
    std::size_t index;
    std::int64_t size;
    at::Tensor exchanged;  // a view of the all-reduced tensor
  };

  void place_views(at::TensorOptions options);

  std::vector<Matrix> matrices_;
  std::vector<Other> others_;
  at::Tensor first_, second_;
  at::Tensor sound_;                   // bool, 0-d: the first all-reduced tensor is finite
  std::vector<at::Tensor> gradients_;  // of the current step
};

/// Orthonormalizes the columns in place, in order, by the Gram-Schmidt process applied twice; a
/// column that depends on earlier ones becomes zero. Never synchronizes with the device.
void orthonormalize(const at::Tensor& matrix);

}  // namespace trainctl::dist
