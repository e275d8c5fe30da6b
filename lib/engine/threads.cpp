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

train::ThreadChoice fixed(int threads, std::string why, double step_s = 0) {
  at::set_num_threads(threads);
  return {threads, std::move(why), step_s};
}

train::ThreadChoice probe(const ThreadContext& context) {
  const int cores = std::max(usable_cores() / context.local_world_size, 1);
  if (cores == 1) return {1, "one core for each process"};
  return train::probe_threads(
      {cores, throwaway_step(context), [](int n) { at::set_num_threads(n); }}, steady_clock());
}

}  // namespace

std::function<void()> throwaway_step(const ThreadContext& context) {
  const spec::Experiment& experiment = context.experiment;
  const std::shared_ptr<stage::Model> model =
      context.catalogue.models.build(experiment.model, context.model);
  model->to(context.device);
  const std::shared_ptr<stage::Loss> loss =
      context.catalogue.losses.build(experiment.loss, {context.model.outputs, context.device});
  std::vector<std::int64_t> shape = context.model.input_shape;
  shape.insert(shape.begin(), experiment.loader.batch_size);
  const at::Tensor inputs = at::randn(shape).to(context.device);
  const at::Tensor targets =
      at::randint(std::max<std::int64_t>(context.model.outputs, 1), {shape[0]}, at::kLong)
          .to(context.device);
  return [model, loss, inputs, targets] {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    const at::Tensor value = loss->forward(model->forward(inputs), targets).value;
    value.backward();
    (void)value.item<float>();  // behind all work of the step
  };
}

train::ThreadChoice choose_threads(const ThreadContext& context, dist::Communicator& communicator) {
  const spec::Trainer& trainer = context.experiment.trainer;
  if (trainer.num_threads.value) return fixed(*trainer.num_threads.value, "asked");
  if (!context.device.is_cpu()) return fixed(1, "the GPU computes");
  if (trainer.deterministic) return fixed(1, "deterministic");
  train::ThreadChoice choice{0, "rank 0's choice"};
  if (communicator.place().rank == 0) choice = probe(context);
  const at::Tensor threads = at::full({1}, choice.threads, at::kInt);
  communicator.broadcast(threads, "broadcast of the number of threads");
  return fixed(*threads.const_data_ptr<std::int32_t>(), std::move(choice.why), choice.step_s);
}

}  // namespace trainctl::engine
