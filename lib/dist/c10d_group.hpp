#pragma once

#include "dist/communicator.hpp"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::dist {

/// The supervisor's store as c10d sees it, under the group's prefix.
c10::intrusive_ptr<c10d::Store> make_c10d_store(const GroupOptions& options);

/// A Communicator over a formed c10d group, which stamps `page` unless that is null. Dropped in
/// order: reducer (the caller's), group, store.
std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         at::Device device, events::Heartbeat* page);

/// c10d's Reducer with a frozen layout, over parameters that are alike on all ranks.
std::unique_ptr<GradSync> make_reducer_sync(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                            const std::vector<at::Tensor>& parameters,
                                            const BucketOptions& buckets, events::Heartbeat* page);

/// The same by hooks of our own, see Bucketing.
std::unique_ptr<GradSync> make_bucket_sync(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                           const std::vector<at::Tensor>& parameters,
                                           const BucketOptions& buckets, events::Heartbeat* page);

/// The Error for what an outside library threw in the collective `what`. Gloo throws
/// std::runtime_error, the rest of c10d c10::Error.
[[noreturn]] void rethrow_collective(const std::string& what, const Place& place);

/// Runs one collective; what it throws becomes an Error that names it.
template <class Body>
decltype(auto) collective(const std::string& what, const Place& place, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    rethrow_collective(what, place);
  }
}

/// A rank, and the page of it that tells what it exchanges; null: nobody looks.
struct Caller {
  Place place;
  events::Heartbeat* page = nullptr;
};

/// The same, stamped: it is under way until `body` returns.
template <class Body>
decltype(auto) collective(const std::string& what, const Caller& caller, Body&& body) {
  const events::CollectiveStamp stamp(caller.page, what);
  return collective(what, caller.place, std::forward<Body>(body));
}

}  // namespace trainctl::dist
