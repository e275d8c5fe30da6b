#include "engine/threads.hpp"

#include "base/machine.hpp"
#include "train/precision.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
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

at::Tensor made_up_classes(const stage::ModelContext& model, at::IntArrayRef shape) {
  return at::randint(std::max<std::int64_t>(model.outputs, 1), shape, at::kLong);
}

at::Tensor made_up_inputs(const stage::ModelContext& model, at::IntArrayRef shape) {
  return model.kind.inputs == spec::Inputs::tokens ? made_up_classes(model, shape)
                                                   : at::randn(shape);
}

/// `shape`: of the inputs, which tokens to learn share.
at::Tensor made_up_targets(const stage::ModelContext& model, at::IntArrayRef shape) {
  if (model.kind.targets == spec::Targets::numbers) return at::rand({shape[0], model.outputs});
  const bool tokens = model.kind.targets == spec::Targets::tokens;
  return made_up_classes(model, tokens ? shape : shape.slice(0, 1));
}

}  // namespace

std::function<void()> throwaway_step(const ThreadContext& context) {
  const spec::Experiment& experiment = context.experiment;
  const std::shared_ptr<stage::Model> model =
      context.catalogue.models.build(experiment.model, context.model);
  model->to(context.device);
  const train::ForwardOptions options = train::forward_options(experiment.trainer);
  if (options.channels_last) train::lay_out_channels_last(*model);
  const std::shared_ptr<stage::Loss> loss = context.catalogue.losses.build(
      experiment.loss, {context.model.outputs, context.device, context.model.kind.targets});
  std::vector<std::int64_t> shape = context.model.input_shape;
  shape.insert(shape.begin(), experiment.loader.batch_size);
  const at::Tensor inputs = made_up_inputs(context.model, shape).to(context.device);
  const at::Tensor targets = made_up_targets(context.model, shape).to(context.device);
  return [model, loss, inputs, targets, options] {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    const at::Tensor value = loss->forward(train::forward(*model, inputs, options), targets).value;
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
