#include "spec/experiment/buckets.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace trainctl::spec
