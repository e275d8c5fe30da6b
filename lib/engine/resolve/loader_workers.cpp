#include "engine/resolve/loader_workers.hpp"

#include "base/machine/gpus.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/numa.hpp"
#include "base/machine/resource_usage.hpp"
#include "data/core/pipeline.hpp"
#include "engine/failure.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

namespace trainctl::engine {
namespace {

/// Returns the cores of the rank's NUMA node, if there are several nodes.
std::vector<int> own_cores(const LoadingContext& context) {
  RankPlace place{context.local_rank, context.run.local_world_size, {}};
  if (!context.run.device.is_cpu() && numbers_by_pci()) {
    const auto gpus = visible_gpus(present_gpus(), std::getenv("CUDA_VISIBLE_DEVICES"));
    const auto index = static_cast<std::size_t>(context.local_rank);
    if (index < gpus.size()) place.gpu_node = node_of_gpu(gpus[index]);
  }
  return near_cores(numa_nodes(), allowed_cores(), place);
}

data::LoadingLimits limits_of(const LoadingContext& context, const std::vector<int>& cores) {
  const int share = cores_of_rank(context.run.local_world_size);
  const auto near = static_cast<int>(cores.size());
  return {.cores = near > 0 ? std::min(share, near) : share,
          .training_uses_cores = context.run.device.is_cpu()};
}

data::LoaderOptions options_for(const LoadingContext& context, data::Role role) {
  const auto trains_on = context.run.device.is_cpu() ? data::TrainsOn::cpu : data::TrainsOn::gpu;
  data::LoaderOptions options =
      data::loader_options(context.run.experiment, role, context.data.shard, trains_on);
  options.cores = own_cores(context);
  return options;
}

std::uint64_t ring_bytes(const LoadingContext& context) {
  return available_memory() / 2 / static_cast<std::uint64_t>(context.run.local_world_size);
}

/// If the memory does not suffice, training reports it better than a probe.
double time_of_step(const LoadingContext& context) {
  try {
    return train::time_steps(throwaway_step(context.run), context.run.device, steady_clock());
  } catch (...) {
    if (!refused_memory(std::current_exception())) throw;
    return 0;
  }
}

data::LoadingChoice probe(const LoadingContext& context) {
  const spec::Loader& asked = context.run.experiment.loader;
  data::LoaderOptions options = options_for(context, data::Role::train);
  options.memory_budget = ring_bytes(context);
  const data::LoadingLimits limits = limits_of(context, options.cores);
  std::pair<double, double> step{context.step_s, 0};  // seconds, and the share that others took
  if (asked.num_workers.is_auto() && context.step_s == 0)
    step = probe_when_quiet([&] { return time_of_step(context); });
  std::int64_t first_batch = 0;
  // Slow or remote storage must not delay the start of a run three times.
  const double spare_s = context.data.train.dataset->fetchable() == nullptr ? 1 : 0;
  auto [choice, taken] = probe_when_quiet(
      [&] {
        data::LoadingChoice found = data::decide_loading(asked, context.data.train, options, limits,
                                                         step.first, steady_clock(), first_batch);
        first_batch = found.next_batch;
        return found;
      },
      [&, end = steady_clock().now() + spare_s] { return steady_clock().now() < end; });
  choice.taken = std::max(taken, step.second);
  if (choice.taken > 0)
    choice.why +=
        fmt::format(", while other processes used {:.0f} % of the cores", 100 * choice.taken);
  return choice;
}

data::LoaderOptions options_with(const LoadingContext& context, data::Role role,
                                 const data::LoadingChoice& choice, std::uint64_t memory_budget) {
  data::LoaderOptions options = options_for(context, role);
  options = with_choice(options, choice, limits_of(context, options.cores));
  options.memory_budget = memory_budget;
  return options;
}

}  // namespace

data::LoadingChoice choose_loading(const LoadingContext& context,
                                   dist::Communicator& communicator) {
  data::LoadingChoice choice{.why = "chosen by rank 0"};
  if (communicator.rank_info().rank == 0) choice = probe(context);
  const at::Tensor numbers = at::empty({2}, at::kInt);
  auto* number = numbers.mutable_data_ptr<std::int32_t>();
  number[0] = choice.num_workers;
  number[1] = choice.prefetch_factor;
  communicator.broadcast(numbers, "broadcast of the number of loader workers");
  choice.num_workers = number[0];
  choice.prefetch_factor = number[1];
  return choice;
}

std::unique_ptr<data::Loader> build_evaluation_loader(const LoadingContext& context,
                                                      const data::LoadingChoice& choice) {
  const data::LoaderOptions options =
      options_with(context, data::Role::evaluate, choice, ring_bytes(context));
  return std::make_unique<data::Loader>(context.data.train, options);
}

std::unique_ptr<data::Loader> build_test_loader(const LoadingContext& context,
                                                const data::LoadingChoice& choice) {
  const data::LoaderOptions options =
      options_with(context, data::Role::test, choice, ring_bytes(context));
  return std::make_unique<data::Loader>(*context.data.test, options);
}

RunLoaders build_loaders(const LoadingContext& context, const data::LoadingChoice& choice) {
  RunLoaders loaders;
  std::uint64_t left = ring_bytes(context);
  const auto build = [&](const data::Pipeline& pipeline, data::Role role) {
    auto loader =
        std::make_unique<data::Loader>(pipeline, options_with(context, role, choice, left));
    left -= std::min(left, loader->memory().size());
    return loader;
  };
  in_context("dataset.train",
             [&] { loaders.train = build(context.data.train, data::Role::train); });
  if (context.data.validation)
    in_context("dataset.val",
               [&] { loaders.validation = build(*context.data.validation, data::Role::evaluate); });
  return loaders;
}

}  // namespace trainctl::engine
