#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::spec {

enum class Backend { automatic, gloo, nccl };
constexpr std::array<const char*, 3> enum_names(Backend) { return {"auto", "gloo", "nccl"}; }

/// What the ranks share.
enum class Strategy { ddp, zero1, local_sgd, data_parallel };
constexpr std::array<const char*, 4> enum_names(Strategy) {
  return {"ddp", "zero1", "local_sgd", "data_parallel"};
}

enum class Compression { none, bf16, fp16, powersgd };
constexpr std::array<const char*, 4> enum_names(Compression) {
  return {"none", "bf16", "fp16", "powersgd"};
}

struct Distributed {
  static constexpr auto kSummary = "How ranks exchange gradients.";

  Strategy type = Strategy::ddp;
  Backend backend = Backend::automatic;
  double bucket_cap_mb = 25;
  double timeout_s = 600;
  std::string interface;  // empty: what the supervisors of the nodes talk over
  Compression compression = Compression::none;
  std::int64_t powersgd_rank = 1;
  bool find_unused_parameters = false;
  std::optional<std::int64_t> sync_every;

  static void describe(config::Describe<Distributed>& options);  // distributed.cpp
};

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

/// Which rank of `distributed.type: zero1` updates which parameter, by the bytes of each: whole
/// ones, the largest first, each to the rank that has least so far.
std::vector<int> owners_of(std::span<const std::int64_t> parameter_bytes, int ranks);

/// Bytes of the parameters of the rank that has most of them.
std::int64_t largest_share(std::span<const std::int64_t> parameter_bytes, int ranks);

}  // namespace trainctl::spec
