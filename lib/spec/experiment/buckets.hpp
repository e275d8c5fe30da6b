#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainctl::spec {

/// Gradients that are exchanged as one tensor.
struct Bucket {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

/// The buckets that ranks of a run exchange, in the order of the exchange: what c10d's
/// compute_bucket_assignment_by_size makes of the gradients of the trained parameters, of one type
/// and device, in their order, reversed because backward reaches the last parameters first. A
/// bucket is closed by the gradient with which it reaches its limit: 1 MiB for that of the first
/// parameters, `cap_bytes` for all others.
std::vector<Bucket> bucket_layout(std::span<const std::int64_t> gradient_bytes,
                                  std::int64_t cap_bytes);

/// As checkpoints tell the layout, for gradients of 4 bytes an element: "2x1300,14x25600".
std::string layout_text(std::span<const Bucket> buckets);

}  // namespace trainctl::spec
