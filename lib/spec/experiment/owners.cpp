#include "spec/experiment/owners.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainctl::spec {

std::vector<int> owners_of(std::span<const std::int64_t> parameter_bytes, int ranks) {
  std::vector<std::size_t> order(parameter_bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return parameter_bytes[i]; });
  // Ranks beyond the number of parameters get none: they need not be looked at.
  std::vector<std::int64_t> bytes(std::min(static_cast<std::size_t>(ranks), order.size()), 0);
  std::vector<int> owners(parameter_bytes.size(), 0);
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(bytes);  // the first of equals
    *least += parameter_bytes[i];
    owners[i] = static_cast<int>(least - bytes.begin());
  }
  return owners;
}

std::int64_t largest_share(std::span<const std::int64_t> parameter_bytes, int ranks) {
  const std::vector<int> owners = owners_of(parameter_bytes, ranks);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks), 0);
  for (std::size_t i = 0; i < owners.size(); ++i)
    bytes[static_cast<std::size_t>(owners[i])] += parameter_bytes[i];
  return *std::ranges::max_element(bytes);
}

}  // namespace trainctl::spec
