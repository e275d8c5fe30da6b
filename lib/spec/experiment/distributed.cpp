#include "spec/experiment/distributed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trainctl::spec {
namespace {

constexpr std::int64_t kFirstBytes = 1 << 20;  // dist::BucketOptions::first_bytes
constexpr std::int64_t kElementBytes = 4;

}  // namespace

std::vector<Bucket> bucket_layout(std::span<const std::int64_t> gradient_bytes,
                                  std::int64_t cap_bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (const std::int64_t bytes : gradient_bytes) {
    ++open.parameters;
    open.bytes += bytes;
    if (open.bytes < (buckets.empty() ? kFirstBytes : cap_bytes)) continue;
    buckets.push_back(open);
    open = {};
  }
  if (open.parameters > 0) buckets.push_back(open);
  std::ranges::reverse(buckets);
  return buckets;
}

std::string layout_text(std::span<const Bucket> buckets) {
  std::string text;
  for (const Bucket& bucket : buckets)
    text += fmt::format("{}{}x{}", text.empty() ? "" : ",", bucket.parameters,
                        bucket.bytes / kElementBytes);
  return text;
}

std::vector<int> owners_of(std::span<const std::int64_t> parameter_bytes, int ranks) {
  std::vector<std::size_t> order(parameter_bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return parameter_bytes[i]; });
  // Ranks beyond the number of parameters get none, so they can be left out.
  std::vector<std::int64_t> bytes(std::min(static_cast<std::size_t>(ranks), order.size()), 0);
  std::vector<int> owners(parameter_bytes.size(), 0);
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(bytes);  // the first one if several are equal
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
