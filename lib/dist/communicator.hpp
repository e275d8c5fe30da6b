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
/// call in errors and on the page that the supervisor sees. Each call has the group's time limit,
/// GroupOptions::timeout. Throws Error(rank_failed) where a rank is gone and Error(hang) where one
/// did not come in time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Place place() const = 0;
  /// Adds the tensor over the ranks, in place; `tensor` stays untouched by the caller until `wait`.
  virtual std::unique_ptr<Pending> start_sum(const at::Tensor& tensor, const std::string& what) = 0;
  /// Every rank gets the values of rank `root`, in place; `tensor` is on the group's device, and
  /// stays untouched by the caller until `wait`.
  virtual std::unique_ptr<Pending> start_broadcast(const at::Tensor& tensor, int root,
                                                   const std::string& what) = 0;
  /// Every rank gets rank 0's values, in place.
  virtual void broadcast(const at::Tensor& tensor, const std::string& what) = 0;
  /// The tensors of all ranks, by rank: copies, where `tensor` lies. It has the same shape and type
  /// on each of them.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) = 0;
  /// Checks that all ranks have parameters of the same shapes and types (Error(config) on each of
  /// them where not), gives every rank rank 0's, and returns what averages gradients.
  virtual std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                                   const BucketOptions& buckets) = 0;

  void sum(const at::Tensor& tensor, const std::string& what) { start_sum(tensor, what)->wait(); }
  /// Returns when every rank has come here.
  void barrier(const std::string& what);
};

/// World of one: nothing is sent.
std::unique_ptr<Communicator> make_single();

}  // namespace trainctl::dist
