#include "engine/threads.hpp"

#include "base/machine.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace trainctl::engine {
namespace {

/// Forward and backward of a throwaway model on made-up data of the run's shape.
std::function<void()> throwaway_step(const ThreadContext& context) {
  const spec::Experiment& experiment = context.experiment;
  const std::shared_ptr<stage::Model> model =
      context.catalogue.models.build(experiment.model, context.model);
  const std::shared_ptr<stage::Loss> loss =
      context.catalogue.losses.build(experiment.loss, {context.model.outputs, context.device});
  std::vector<std::int64_t> shape = context.model.input_shape;
  shape.insert(shape.begin(), experiment.loader.batch_size);
  const at::Tensor inputs = at::randn(shape);
  const at::Tensor targets =
      at::randint(std::max<std::int64_t>(context.model.outputs, 1), {shape[0]}, at::kLong);
  return [model, loss, inputs, targets] {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    loss->forward(model->forward(inputs), targets).value.backward();
  };
}

train::ThreadChoice fixed(int threads, std::string why) {
  at::set_num_threads(threads);
  return {threads, std::move(why)};
}

train::ThreadChoice probe(const ThreadContext& context) {
  const int cores = std::max(usable_cores() / context.local_world_size, 1);
  if (cores == 1) return {1, "one core for each process"};
  return train::probe_threads(
      {cores, throwaway_step(context), [](int n) { at::set_num_threads(n); }}, steady_clock());
}

}  // namespace

train::ThreadChoice choose_threads(const ThreadContext& context, dist::Communicator& communicator) {
  const spec::Trainer& trainer = context.experiment.trainer;
  if (trainer.num_threads.value) return fixed(*trainer.num_threads.value, "asked");
  if (!context.device.is_cpu()) return fixed(1, "the GPU computes");
  if (trainer.deterministic) return fixed(1, "deterministic");
  train::ThreadChoice choice{0, "rank 0's choice"};
  if (communicator.place().rank == 0) choice = probe(context);
  const at::Tensor threads = at::full({1}, choice.threads, at::kInt);
  communicator.broadcast(threads, "broadcast of the number of threads");
  return fixed(*threads.const_data_ptr<std::int32_t>(), std::move(choice.why));
}

}  // namespace trainctl::engine
