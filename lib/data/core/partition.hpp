#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::data {

/// Everything that a division of samples into disjoint parts depends on.
struct PartitionRequest {
  std::int64_t samples = 0;
  std::vector<double> shares;               // of each part; they sum to 1, and one may be 0
  std::span<const std::int64_t> strata{};   // the stratum of each sample, from 0; empty: no strata
  std::span<const std::uint32_t> groups{};  // the group of each sample, from 0; empty: no groups
  std::uint64_t seed = 0;
  std::vector<std::string> part_names{};                    // for errors
  std::function<std::string(std::int64_t)> stratum_name{};  // for errors
};

/// The samples of each part, in ascending order.
using Parts = std::vector<std::vector<std::int64_t>>;

/// The sizes of the parts: their shares of `samples`, rounded by the largest remainder (ties go to
/// the part that comes first), so that they sum to `samples`. Throws Error(config) when a part
/// with a share above 0 gets none.
std::vector<std::int64_t> part_sizes(const PartitionRequest& request);

/// Draws the parts. Without groups their sizes are part_sizes(), and each stratum is divided with
/// the same shares, to within one sample. With groups every group is in one part, and sizes and
/// strata are as close to the shares as the best of several draws. Throws Error(config) when a
/// stratum has fewer samples than there are parts, or when groups cannot be divided so that each
/// part is within half of its share.
Parts partition(const PartitionRequest& request);

}  // namespace trainctl::data
