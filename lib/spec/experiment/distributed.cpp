#include "spec/experiment/distributed.hpp"

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

}  // namespace trainctl::spec
