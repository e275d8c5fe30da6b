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

/// What the ranks share: gradients, optimizer state or weights.
enum class Strategy { ddp, zero1, local_sgd, data_parallel };
constexpr std::array<const char*, 4> enum_names(Strategy) {
  return {"ddp", "zero1", "local_sgd", "data_parallel"};
}

enum class Compression { none, bf16, fp16, powersgd };
constexpr std::array<const char*, 4> enum_names(Compression) {
  return {"none", "bf16", "fp16", "powersgd"};
}

/// The sentence of errors and tables about data_parallel.
inline constexpr const char* kDataParallelIsSlower =
    "data_parallel is slower than ddp by design: in each step, one process copies the weights to "
    "every GPU and gathers the outputs on the first GPU";

struct Distributed {
  static constexpr auto kSummary = "How ranks synchronize gradients.";

  Strategy type = Strategy::ddp;
  Backend backend = Backend::automatic;
  double bucket_cap_mb = 25;
  double timeout_s = 600;
  std::string interface;  // empty: the one that the supervisors of the nodes use
  Compression compression = Compression::none;
  std::int64_t powersgd_rank = 1;
  bool find_unused_parameters = false;
  std::optional<std::int64_t> sync_every;

  static void describe(auto& options) {
    options.field(
        "type", &Distributed::type,
        "ddp: each rank holds the whole model, and gradients are averaged at every step; "
        "zero1: the same results, with the optimizer state sharded over the ranks; "
        "local_sgd: ranks step independently, and weights are averaged every "
        "'sync_every' steps; data_parallel: one process copies the model to every GPU in each "
        "step, only for comparison in bench: slower than ddp by design.");
    options.field("backend", &Distributed::backend, "auto: nccl on GPUs, gloo on CPUs.");
    options.field("bucket_cap_mb", &Distributed::bucket_cap_mb, {.above = 0, .at_most = 4096},
                  "Size of a gradient bucket, in MiB.");
    options.field("timeout_s", &Distributed::timeout_s, {.above = 0},
                  "Timeout of collective operations, in seconds.");
    options.field("interface", &Distributed::interface, {.example = "eth0"},
                  "Network interface or address that this node uses to reach other nodes; empty: "
                  "the one that reaches node 0. May differ per node.");
    options.field(
        "compression", &Distributed::compression,
        "Gradient compression. bf16, fp16: half the bytes, averaged in that format; powersgd: "
        "low-rank approximation of gradient matrices with error feedback (Vogels et al. 2019).");
    options.field("powersgd_rank", &Distributed::powersgd_rank,
                  {.at_least = 1, .at_most = 256, .example = "4"},
                  "Rank of the powersgd approximation: higher is more accurate and costs more.");
    options.field("find_unused_parameters", &Distributed::find_unused_parameters,
                  "Searches at every step for parameters on which the loss does not depend; false: "
                  "if such parameters exist, the run fails and its error lists them.");
    options.field("sync_every", &Distributed::sync_every,
                  {.at_least = 1, .at_most = 1'000'000, .example = "8"},
                  "Steps between two averages of weights and buffers with local_sgd.");
  }
};

/// Gradients that are all-reduced as one tensor.
struct Bucket {
  std::int64_t parameters = 0;
  std::int64_t bytes = 0;
};

/// Returns the gradient buckets in the order of their all-reduce. Follows c10d's
/// compute_bucket_assignment_by_size for gradients of one dtype and device, given in the order of
/// the parameters and reversed because the backward pass reaches the last parameters first. A
/// bucket is closed by the gradient that reaches its limit: 1 MiB for the bucket of the first
/// parameters, `cap_bytes` for all others.
std::vector<Bucket> bucket_layout(std::span<const std::int64_t> gradient_bytes,
                                  std::int64_t cap_bytes);

/// Returns the layout as checkpoints record it, for gradients of 4 bytes per element:
/// "2x1300,14x25600".
std::string layout_text(std::span<const Bucket> buckets);

/// Returns the rank that updates each parameter under `distributed.type: zero1`. Whole parameters
/// are assigned by size, the largest first, to the rank with the fewest bytes so far.
std::vector<int> owners_of(std::span<const std::int64_t> parameter_bytes, int ranks);

/// Returns the bytes of the parameters on the rank with the most.
std::int64_t largest_share(std::span<const std::int64_t> parameter_bytes, int ranks);

}  // namespace trainctl::spec
