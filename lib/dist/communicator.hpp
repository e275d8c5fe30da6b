#pragma once

#include "dist/grad_sync.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace trainctl::dist {

/// A collective under way.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when the result is in the tensor (CPU), or ordered before later work on the device.
  virtual void wait() = 0;
};

/// Talks to the other ranks. Every rank makes the same calls in the same order; `what` names the
/// call in errors. Throws Error(rank_failed) where a rank is gone and Error(hang) where one did not
/// come in time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Place place() const = 0;
  /// Adds the tensor over the ranks, in place; `tensor` stays untouched by the caller until `wait`.
  virtual std::unique_ptr<Pending> start_sum(const at::Tensor& tensor, const std::string& what) = 0;
  /// Every rank gets rank 0's values, in place.
  virtual void broadcast(const at::Tensor& tensor, const std::string& what) = 0;
  /// Gives every rank rank 0's parameters, checks that all agree on their shapes, and returns what
  /// averages gradients.
  virtual std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                                   const BucketOptions& buckets) = 0;

  void sum(const at::Tensor& tensor, const std::string& what) { start_sum(tensor, what)->wait(); }
  /// Returns when every rank has come here.
  void barrier(const std::string& what);
};

/// World of one: nothing is sent.
std::unique_ptr<Communicator> make_single();

}  // namespace trainctl::dist
