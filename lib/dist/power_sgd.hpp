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

/// The gradients of one bucket under PowerSGD (Vogels et al. 2019, algorithms 1 and 2): a matrix M,
/// of this rank and with what it lost before, becomes P = M Q; of the average of the P an
/// orthonormal basis is made, Q = M^T P is averaged, and every rank takes P Q^T for the average of
/// the M. What P Q^T lacks of its own M a rank adds to its next gradient; Q is where the next step
/// begins. Vectors, and matrices of which the factors would hold more than half the numbers, are
/// averaged as they are. The arithmetic between the exchanges is the same on every rank, and so
/// are its bits as long as CPU and threads are. A gradient that is not finite spoils the step and
/// nothing that is kept.
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
    at::Tensor exchanged;  // a view of it
  };

  void add(const std::vector<SyncParameter>& parameters, std::int64_t rank);
  void place_views(at::TensorOptions options);
  void finish_matrices(const at::Tensor& sound);

  std::vector<Matrix> matrices_;
  std::vector<Other> others_;
  std::vector<std::int64_t> other_sizes_;
  at::Tensor first_, second_;
  at::Tensor sound_;                   // bool, 0-d: what was exchanged first is finite
  std::vector<at::Tensor> gradients_;  // of the step under way
};

/// All buckets of a model.
class PowerSgd {
 public:
  PowerSgd(const std::vector<std::vector<SyncParameter>>& buckets, std::int64_t rank);
  PowerSgdBucket& bucket(std::size_t index) { return buckets_.at(index); }
  [[nodiscard]] std::vector<SyncTensor> state() const;
  /// Of each bucket.
  [[nodiscard]] std::vector<std::int64_t> sent_bytes() const;

 private:
  std::vector<PowerSgdBucket> buckets_;
};

/// Makes the columns orthonormal in place, from the first on, by Gram and Schmidt's method taken
/// twice; one that depends on those before it becomes zero. Never waits for the device.
void orthonormalise(const at::Tensor& matrix);

}  // namespace trainctl::dist
