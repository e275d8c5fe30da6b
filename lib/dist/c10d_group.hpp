#pragma once

#include "dist/communicator.hpp"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::dist {

/// Returns the supervisor's store as a c10d store, with the group's prefix.
c10::intrusive_ptr<c10d::Store> make_c10d_store(const GroupOptions& options);

/// Returns a c10d group with one backend, which must be initialized. The group binds both to
/// `device`.
c10::intrusive_ptr<c10d::ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  at::Device device,
                                                  c10d::ProcessGroup::BackendType type,
                                                  const c10::intrusive_ptr<c10d::Backend>& backend);

/// Waits until all work on the device is done; returns at once for a CPU.
void synchronize_device(at::Device device);

/// Returns a Communicator for an initialized c10d group, which writes to `page` unless it is null.
/// Its shutdown() calls `synchronize` between the last barrier and the end of the backend. Destroy
/// in this order: reducer (the caller's), group, store.
std::unique_ptr<Communicator> wrap_group(
    c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device, events::Heartbeat* page,
    std::function<void(at::Device)> synchronize = synchronize_device);

/// Returns a GradSync that uses c10d's Reducer with a fixed layout. The parameters must be equal on
/// all ranks.
std::unique_ptr<GradSync> make_reducer_sync(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                            const std::vector<at::Tensor>& parameters,
                                            const BucketOptions& buckets, events::Heartbeat* page);

/// Returns a GradSync that uses our own hooks, see Bucketing.
std::unique_ptr<GradSync> make_bucket_sync(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                           const std::vector<at::Tensor>& parameters,
                                           const BucketOptions& buckets, events::Heartbeat* page);

/// Converts the current exception of the collective `what` into an Error, see collective_error().
/// Gloo throws std::runtime_error, the rest of c10d c10::Error.
[[noreturn]] void rethrow_collective(const std::string& what, const RankInfo& rank_info);

/// Runs one collective and converts exceptions into an Error that names it.
template <class Body>
decltype(auto) run_collective(const std::string& what, const RankInfo& rank_info, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    rethrow_collective(what, rank_info);
  }
}

/// A rank and the heartbeat page that shows its running collective; null: no page.
struct Caller {
  RankInfo rank_info;
  events::Heartbeat* page = nullptr;
};

/// Does the same and shows the collective on the page until `body` returns.
template <class Body>
decltype(auto) run_collective(const std::string& what, const Caller& caller, Body&& body) {
  const events::CollectiveScope stamp(caller.page, what);
  return run_collective(what, caller.rank_info, std::forward<Body>(body));
}

}  // namespace trainctl::dist
