#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::data {

/// The inputs that determine how samples are divided into disjoint parts.
struct PartitionRequest {
  std::int64_t samples = 0;
  std::vector<double> shares;               // one per part; they sum to 1, and 0 is allowed
  std::span<const std::int64_t> strata{};   // stratum of each sample, from 0; empty: no strata
  std::span<const std::uint32_t> groups{};  // group of each sample, from 0; empty: no groups
  std::uint64_t seed = 0;
  std::vector<std::string> part_names{};                    // for error messages
  std::function<std::string(std::int64_t)> stratum_name{};  // for error messages
};

/// The samples of each part, in ascending order.
using Parts = std::vector<std::vector<std::int64_t>>;

/// Returns the sizes of the parts: the shares of `samples`, rounded by the largest-remainder method
/// (the earlier part wins a tie), so that they sum to `samples`. Throws Error(config) when a part
/// with a share above 0 would be empty.
std::vector<std::int64_t> part_sizes(const PartitionRequest& request);

/// Draws the parts. Without groups the sizes are part_sizes(), and each stratum is divided by the
/// same shares, to within one sample. With groups, each group is in exactly one part, and the best
/// of several draws is used, the one with sizes and strata closest to the shares. Throws
/// Error(config) when a stratum has fewer samples than there are parts, or when the size of a part
/// would miss its share by more than half.
Parts partition(const PartitionRequest& request);

}  // namespace trainctl::data
