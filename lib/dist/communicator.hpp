#pragma once

#include "dist/grad_sync.hpp"
#include "events/heartbeat.hpp"
#include "launch/rendezvous/store.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::dist {

/// Waits for a collective under way: returns when the result is in the tensor (CPU), or ordered
/// before later work on the device.
using Pending = std::function<void()>;

/// Talks to the other ranks. Every rank makes the same calls in the same order; `what` names the
/// call in errors and on the supervisor's page. Throws Error(rank_failed) where a rank is gone and
/// Error(hang) where one did not come within GroupOptions::timeout.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Place place() const = 0;
  /// Adds the tensor over the ranks, in place; the caller leaves `tensor` untouched until it has
  /// waited.
  virtual Pending start_sum(const at::Tensor& tensor, const std::string& what) = 0;
  /// Every rank gets the values of rank `root`, in place; `tensor` is on the group's device, and
  /// stays untouched by the caller until it has waited.
  virtual Pending start_broadcast(const at::Tensor& tensor, int root, const std::string& what) = 0;
  /// Every rank gets rank 0's values, in place.
  virtual void broadcast(const at::Tensor& tensor, const std::string& what) = 0;
  /// The tensors of all ranks, by rank: copies, where `tensor` lies. It has the same shape and type
  /// on each of them.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) = 0;
  /// Checks that all ranks have parameters of the same shapes and types (Error(config) on each of
  /// them where not), gives every rank rank 0's, and returns what averages gradients.
  virtual std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                                   const BucketOptions& buckets) = 0;

  void sum(const at::Tensor& tensor, const std::string& what) { start_sum(tensor, what)(); }
  /// Returns when every rank has come here.
  void barrier(const std::string& what);
};

/// World of one: nothing is sent.
std::unique_ptr<Communicator> make_single();

/// Where this rank stands and how it finds the others.
struct GroupOptions {
  Place place;
  std::shared_ptr<launch::StoreClient> store;
  std::string prefix = "trainctl";  // one for each group and restart
  std::string address = "127.0.0.1";
  std::chrono::milliseconds timeout{600'000};  // of each collective
  events::Heartbeat* heartbeat = nullptr;      // tells the supervisor which one is under way
};

/// c10d's Gloo over TCP: CPU tensors.
std::unique_ptr<Communicator> make_gloo(const GroupOptions& options);

/// NCCL on `device`. Throws Error(resource) in a build without it (no_nccl.cpp).
std::unique_ptr<Communicator> make_nccl(const GroupOptions& options, c10::Device device);
/// "2.28.9"; empty in a build without it.
std::string nccl_version();

/// "fc1.weight: float32 [128, 784]", and whether it is trained.
std::string description_of(const std::string& name, const at::Tensor& tensor);
/// Of tensors without names, by number from 1.
std::vector<std::string> descriptions_of(const std::vector<at::Tensor>& tensors);

/// All ranks call it. Throws Error(config) on each of them, with the same sentence, where one has
/// other lines than rank 0: it names that rank and the first line that differs. `what` says what
/// they describe.
void verify_alike(Communicator& communicator, const std::vector<std::string>& lines,
                  const std::string& what);

}  // namespace trainctl::dist
