#pragma once

#include "dist/communicator.hpp"
#include "dist/group.hpp"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>

namespace trainctl::dist {

/// The supervisor's store as c10d sees it, under the group's prefix.
c10::intrusive_ptr<c10d::Store> make_c10d_store(const GroupOptions& options);

/// A Communicator over a formed c10d group. Dropped in order: reducer (the caller's), group, store.
std::unique_ptr<Communicator> wrap_group(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                         at::Device device);

/// c10d's Reducer with a frozen layout.
std::unique_ptr<GradSync> make_reducer_sync(c10::intrusive_ptr<c10d::ProcessGroup> group,
                                            std::vector<at::Tensor> parameters,
                                            const BucketOptions& buckets);

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

}  // namespace trainctl::dist
