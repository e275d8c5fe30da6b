#include "spec/experiment/distributed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainctl::spec {
namespace {

void describe_exchange(config::Describe<Distributed>& options) {
  options.field("type", &Distributed::type,
                "ddp: each rank has all, and gradients are averaged at every step; zero1: the "
                "same numbers, with the optimizer's state spread over the ranks; local_sgd: ranks "
                "step alone, and weights are averaged every 'sync_every' steps; data_parallel: "
                "threads of one process, refused: ddp does the same, faster.");
  options.field("backend", &Distributed::backend, "auto: nccl on GPUs, gloo on CPUs.");
  options.field("bucket_cap_mb", &Distributed::bucket_cap_mb, "Size of a gradient bucket, in MiB.")
      .above(0)
      .at_most(4096);
  options
      .field("timeout_s", &Distributed::timeout_s, "Longest wait for the other ranks, in seconds.")
      .above(0);
  options
      .field("interface", &Distributed::interface,
             "Network interface, or address of this node, that ranks of several nodes talk over; "
             "empty: the one that reaches node 0. Each node may have its own.")
      .example("eth0");
}

void describe_compression(config::Describe<Distributed>& options) {
  options.field("compression", &Distributed::compression,
                "How gradients travel. bf16, fp16: in half the bytes, averaged in that format; "
                "powersgd: matrices as products of two thin ones (Vogels et al. 2019), with what "
                "is lost added to the next step's.");
  options
      .field("powersgd_rank", &Distributed::powersgd_rank,
             "Columns of the thin matrices of powersgd: more are closer and cost more.")
      .at_least(1)
      .at_most(256)
      .example("4");
}

}  // namespace

void Distributed::describe(config::Describe<Distributed>& options) {
  describe_exchange(options);
  describe_compression(options);
  options.field("find_unused_parameters", &Distributed::find_unused_parameters,
                "Looks at every step which parameters the loss depends on, for models that leave "
                "some out; false: such a step ends the run, with their names.");
  options
      .field("sync_every", &Distributed::sync_every,
             "Steps of local_sgd after which the ranks average weights and buffers.")
      .at_least(1)
      .at_most(1'000'000)
      .example("8");
}

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
