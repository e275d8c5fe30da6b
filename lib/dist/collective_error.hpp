#pragma once

#include "base/error.hpp"
#include "dist/grad_sync.hpp"

#include <string>
#include <string_view>

namespace trainctl::dist {

/// Returns the Error for a collective that failed with `text`, the whole text of c10d, Gloo or
/// NCCL, whose lines the message joins. Its kind is config or resource if the text names a cause
/// on this machine that a restart would not remove, hang if it reports a timeout, and rank_failed
/// otherwise. `what` names the collective.
Error collective_error(const std::string& what, const RankInfo& rank_info, std::string_view text);

}  // namespace trainctl::dist
