#include "engine/resolve/step_probe.hpp"

#include "base/machine/core_use.hpp"
#include "base/machine/machine.hpp"
#include "data/core/progress.hpp"
#include "engine/failure.hpp"
#include "train/step/forward.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>

namespace trainctl::engine {
namespace {

train::ThreadChoice fixed(int threads, std::string why, double step_s = 0) {
  at::set_num_threads(threads);
  return {threads, std::move(why), step_s};
}

/// Probes again where others took the cores meanwhile; a choice that stays so is marked.
train::ThreadChoice probe_when_quiet(const train::ThreadProbe& probe) {
  constexpr int kMostProbes = 3;
  train::ThreadChoice choice;
  for (int i = 0; i < kMostProbes; ++i) {
    const CoreUseMeter others;
    choice = train::probe_threads(probe, steady_clock());
    choice.taken = others.taken();
    if (choice.taken == 0) return choice;
  }
  choice.why += fmt::format(", while others took {:.0f} % of the cores", 100 * choice.taken);
  return choice;
}

train::ThreadChoice probe(const ThreadContext& context) {
  const int cores = cores_of_rank(context.local_world_size);
  // Another number would change the order of additions, and so the numbers.
  if (context.before && *context.before <= cores) return {*context.before, "as the run began"};
  if (cores == 1) return {1, "one core for each process"};
  return probe_when_quiet({cores, throwaway_step(context), [](int n) { at::set_num_threads(n); }});
}

/// Training says better than a probe that the memory does not suffice.
train::ThreadChoice probe_that_fits(const ThreadContext& context) {
  try {
    return probe(context);
  } catch (...) {
    if (!refused_memory(std::current_exception())) throw;
    return {1, "the probe ran out of memory"};
  }
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

MadeUpBatch made_up_batch(const stage::ModelContext& model, std::int64_t rows, at::Device device) {
  std::vector<std::int64_t> shape = model.input_shape;
  shape.insert(shape.begin(), rows);
  return {made_up_inputs(model, shape).to(device), made_up_targets(model, shape).to(device)};
}

std::function<void()> throwaway_step(const ThreadContext& context) {
  const spec::Experiment& experiment = context.experiment;
  const std::shared_ptr<stage::Model> model =
      context.catalogue.models.build(experiment.model, context.model);
  model->to(context.device);
  const train::ForwardOptions options = train::forward_options(experiment.trainer);
  if (options.channels_last) train::lay_out_channels_last(*model);
  const std::shared_ptr<stage::Loss> loss = context.catalogue.losses.build(
      experiment.loss, {context.model.outputs, context.device, context.model.kind.targets});
  const MadeUpBatch batch =
      made_up_batch(context.model, experiment.loader.batch_size, context.device);
  return [model, loss, inputs = batch.inputs, targets = batch.targets, options] {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    const at::Tensor value = loss->forward(train::forward(*model, inputs, options), targets).value;
    value.backward();
    (void)value.item<float>();  // behind all work of the step
    data::note_progress();
  };
}

train::ThreadChoice choose_threads(const ThreadContext& context, dist::Communicator& communicator) {
  const spec::Trainer& trainer = context.experiment.trainer;
  if (trainer.num_threads.value) return fixed(*trainer.num_threads.value, "asked");
  if (!context.device.is_cpu()) return fixed(1, "the GPU computes");
  if (trainer.deterministic) return fixed(1, "deterministic");
  train::ThreadChoice choice{0, "rank 0's choice"};
  if (communicator.place().rank == 0) choice = probe_that_fits(context);
  const at::Tensor threads = at::full({1}, choice.threads, at::kInt);
  communicator.broadcast(threads, "broadcast of the number of threads");
  train::ThreadChoice taken =
      fixed(*threads.const_data_ptr<std::int32_t>(), std::move(choice.why), choice.step_s);
  taken.taken = choice.taken;
  return taken;
}

}  // namespace trainctl::engine
