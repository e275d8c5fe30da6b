#pragma once

#include "dist/power_sgd.hpp"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

namespace trainctl::dist {

// What the Reducer does with a bucket of gradients. Afterwards every rank holds the same average,
// bit for bit.

/// What c10d's own all-reduce hook does (it is not exported): always divides the bucket, where the
/// Reducer alone would multiply by a rounded 1/world while a gradient is not yet a view.
std::unique_ptr<c10d::CommHookInterface> make_average_hook(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group);

/// The same, but the bucket travels, and is added, in another type.
std::unique_ptr<c10d::CommHookInterface> make_cast_hook(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::ScalarType type);

/// Matrices travel as their factors. `sgd` outlives the hook and has the Reducer's buckets.
std::unique_ptr<c10d::CommHookInterface> make_power_sgd_hook(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, PowerSgd& sgd);

}  // namespace trainctl::dist
