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

/// Waits for a pending collective: on return the result is in the tensor (CPU), or is ordered
/// before later work on the device. A collective keeps its tensors, so a Pending may be destroyed
/// without a call if nobody needs the result.
using Pending = std::function<void()>;

/// Runs collectives with the other ranks. Every rank makes the same calls in the same order; `what`
/// names the call in errors and on the supervisor's page. Throws Error(rank_failed) if a rank has
/// exited, and Error(hang) if a rank does not arrive within GroupOptions::timeout.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual RankInfo rank_info() const = 0;
  /// Starts an in-place all-reduce with sum. The caller must not touch `tensor` until it has
  /// waited. In a group of GPUs `tensor` may be on the CPU; only the wait then waits for the
  /// device.
  virtual Pending start_sum(const at::Tensor& tensor, const std::string& what) = 0;
  /// Starts an in-place broadcast from rank `root`. `tensor` must be on the group's device, and the
  /// caller must not touch it until it has waited.
  virtual Pending start_broadcast(const at::Tensor& tensor, int root, const std::string& what) = 0;
  /// Starts an all-gather into one tensor, as torch.distributed.all_gather_into_tensor: part r of
  /// `all`, which is divided equally, receives `mine` of rank r. `mine` may be a part of `all`.
  /// Both must be on the group's device, and the caller must not touch them until it has waited.
  virtual Pending start_all_gather(const at::Tensor& all, const at::Tensor& mine,
                                   const std::string& what) = 0;
  /// Broadcasts from rank 0 in place.
  virtual void broadcast(const at::Tensor& tensor, const std::string& what) = 0;
  /// Broadcasts from rank 0 in place, with many tensors in one message, as PyTorch's
  /// _broadcast_coalesced. The host does not wait for tensors on the group's GPU.
  virtual void broadcast_coalesced(const std::vector<at::Tensor>& tensors,
                                   const std::string& what) = 0;
  /// Returns copies of the tensors of all ranks in the order of ranks, on the device of `tensor`.
  /// Shape and dtype must be the same on all ranks.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) = 0;
  /// Checks that the parameters have the same shapes and dtypes on all ranks (else throws
  /// Error(config) on each), broadcasts those of rank 0, and returns the synchronizer of their
  /// gradients.
  virtual std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> parameters,
                                                   const BucketOptions& buckets) = 0;
  /// Ends a group that succeeded: waits for all ranks and for the device, and destroys the
  /// connections. A rank that left earlier could block the others. Destroy CUDA graphs that contain
  /// collectives before, and call no collective after. Throws like a collective.
  virtual void shutdown() {}
  /// Ends a group that failed: cancels pending collectives without waiting for other ranks, so that
  /// the device does not stay blocked. Returns after at most 5 s. Does nothing if the group has
  /// ended; destructors call it. `before` is called first, within the same time limit and in
  /// another thread: it destroys CUDA graphs that contain collectives, which may block, too. It
  /// must own what it destroys.
  virtual void abort(std::function<void()> before) noexcept;
  void abort() noexcept { abort({}); }

  /// Runs start_sum() and waits for it.
  void sum(const at::Tensor& tensor, const std::string& what) { start_sum(tensor, what)(); }
  /// Returns when every rank has called it.
  void barrier(const std::string& what);
};

/// Returns a communicator for world size 1, which sends nothing.
std::unique_ptr<Communicator> make_single();

/// The rank, and how it connects to the others.
struct GroupOptions {
  RankInfo rank_info;
  std::shared_ptr<launch::StoreClient> store;
  std::string prefix = "trainctl";  // one for each group and restart
  std::string address = "127.0.0.1";
  std::chrono::milliseconds timeout{600'000};  // of each collective
  events::Heartbeat* heartbeat = nullptr;      // shows the running collective to the supervisor
};

/// Returns a communicator for CPU tensors: c10d's Gloo over TCP.
std::unique_ptr<Communicator> make_gloo(const GroupOptions& options);

/// Returns a communicator with NCCL on `device`. Throws Error(resource) in a build without NCCL
/// (no_nccl.cpp).
std::unique_ptr<Communicator> make_nccl(const GroupOptions& options, c10::Device device);
/// Returns "2.28.9"; empty in a build without NCCL.
std::string nccl_version();

/// Returns "fc1.weight: float32 [128, 784]", and whether the tensor is trainable.
std::string description_of(const std::string& name, const at::Tensor& tensor);
/// Describes tensors without names, numbered from 1.
std::vector<std::string> descriptions_of(const std::vector<at::Tensor>& tensors);

/// Compares `lines` with those of rank 0. All ranks must call it. Throws the same Error(config) on
/// all ranks if some rank's lines differ, naming that rank and the first different line. `what`
/// says what the lines describe.
void verify_equal(Communicator& communicator, const std::vector<std::string>& lines,
                  const std::string& what);

}  // namespace trainctl::dist
