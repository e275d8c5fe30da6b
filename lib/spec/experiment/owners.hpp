#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::spec {

/// Which rank of `distributed.type: zero1` updates which parameter, by the bytes of each: whole
/// ones, the largest first, each to the rank that has least so far.
std::vector<int> owners_of(std::span<const std::int64_t> parameter_bytes, int ranks);

/// Bytes of the parameters of the rank that has most of them.
std::int64_t largest_share(std::span<const std::int64_t> parameter_bytes, int ranks);

}  // namespace trainctl::spec
