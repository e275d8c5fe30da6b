#pragma once

#include "dist/grad_sync.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::dist {

/// A parameter whose gradient is exchanged.
struct SyncParameter {
  std::string name;
  at::Tensor tensor;
};

/// The gradients of one bucket under PowerSGD (Vogels et al. 2019, algorithms 1 and 2): of a matrix
/// M, this rank's with what it lost before, P = M Q is averaged and made orthonormal, then Q = M^T
/// P is averaged, and P Q^T stands for the average of the M. What that lacks of M is added to the
/// next gradient. Vectors, and matrices whose factors hold more than half the numbers, are averaged
/// as they are. A gradient that is not finite invalidates the step and nothing that is kept.
class PowerSgdBucket {
 public:
  PowerSgdBucket(const std::vector<SyncParameter>& parameters, std::int64_t rank);

  /// What is to be summed over the ranks, in place, before `second`. `gradients` are those of the
  /// parameters, dense views into the bucket.
  at::Tensor first(std::vector<at::Tensor> gradients, int world_size);
  /// Whether there is anything between `first` and `finish`.
  [[nodiscard]] bool has_second() const { return !matrices_.empty(); }
  /// What is to be summed before `finish`: nothing, and yet to be called, where there is no second.
  at::Tensor second(int world_size);
  /// Whether all that was summed is finite: bool, 0-d, the same on every rank.
  [[nodiscard]] at::Tensor sound() const;
  /// Writes the averages over the gradients. What is kept stays as it was unless `sound`, which is
  /// of all buckets: a step is left out as a whole.
  void finish(const at::Tensor& sound);

  /// Of both exchanges.
  [[nodiscard]] std::int64_t sent_bytes() const;
  /// "fc1.weight.q" and "fc1.weight.error" of each matrix.
  void add_state(std::vector<SyncTensor>& all) const;

 private:
  struct Matrix {
    std::size_t index;  // of the gradient
    std::string name;
    at::Tensor start;  // [columns, rank]: where Q begins, and columns of it that died begin anew
    at::Tensor q;      // [columns, rank], as averaged last
    at::Tensor error;  // [rows, columns]
    at::Tensor m;      // [rows, columns], of the step under way
    at::Tensor p, next_q;  // views of what is exchanged
  };
  struct Other {
    std::size_t index;
    std::int64_t size;
    at::Tensor exchanged;  // a view of what is exchanged
  };

  void place_views(at::TensorOptions options);

  std::vector<Matrix> matrices_;
  std::vector<Other> others_;
  at::Tensor first_, second_;
  at::Tensor sound_;                   // bool, 0-d: what was exchanged first is finite
  std::vector<at::Tensor> gradients_;  // of the step under way
};

/// Makes the columns orthonormal in place, from the first on, by Gram and Schmidt's method taken
/// twice; one that depends on those before it becomes zero. Never waits for the device.
void orthonormalize(const at::Tensor& matrix);

}  // namespace trainctl::dist
