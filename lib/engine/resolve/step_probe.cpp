#include "engine/resolve/step_probe.hpp"

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/resource_usage.hpp"
#include "data/core/run_control.hpp"
#include "engine/failure.hpp"
#include "train/measure/resource_counters.hpp"
#include "train/step/forward.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
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

namespace {

bool takes_images(const stage::ModelContext& model) {
  return model.kind.inputs == spec::Inputs::images && model.input_shape.size() == 3;
}

/// Counts on the CPU, whatever the device: the shapes are the same.
train::LayoutFacts count_operations(const LayoutContext& context) {
  const at::NoGradGuard guard;
  const std::unique_ptr<stage::Model> model =
      context.catalogue.models.build(context.experiment.model, context.model);
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor inputs = made_up_batch(context.model, 1, at::kCPU).inputs;
  const train::FlopCounter counter;
  (void)model->forward(inputs);
  return {counter.count(), counter.image_convolutions()};
}

/// A step of a throwaway model with so many rows.
std::function<void()> step_in(const LayoutContext& context, bool channels_last, std::int64_t rows) {
  spec::Experiment experiment = context.experiment;
  experiment.trainer.channels_last.value = channels_last;
  experiment.loader.batch_size = rows;
  return throwaway_step({experiment, context.catalogue, context.model, context.device});
}

/// Rows of the run's batch that a step of about 0.1 seconds holds: of long steps a part tells, too.
std::int64_t probed_rows(const LayoutContext& context) {
  constexpr double kStepS = 0.1;
  constexpr std::int64_t kFewRows = 8;
  const std::int64_t batch = context.experiment.loader.batch_size;
  if (batch <= kFewRows) return batch;
  const std::function<void()> few = step_in(context, false, kFewRows);
  few();
  const double begin = steady_clock().now();
  few();
  const double row_s = std::max(steady_clock().now() - begin, 1e-9) / kFewRows;
  return std::clamp(static_cast<std::int64_t>(kStepS / row_s), kFewRows, batch);
}

/// Probes again if other processes took the cores meanwhile. A choice on a busy machine would be
/// chance, and part of the run for as long as it lasts: the format stays as it is instead.
train::LayoutChoice probe_when_quiet(const train::LayoutProbe& probe) {
  constexpr int kMostProbes = 3;
  double taken = 0;
  for (int i = 0; i < kMostProbes; ++i) {
    const CoreUseMeter others;
    train::LayoutChoice choice = train::probe_layout(probe, steady_clock());
    taken = others.taken();
    if (taken == 0) return choice;
  }
  return {false,
          fmt::format("probe: too noisy to tell, others took {:.0f} % of the cores", 100 * taken)};
}

train::LayoutChoice probe(const LayoutContext& context) {
  if (context.experiment.trainer.deterministic) return {false, "deterministic"};
  if (!context.trains) return {false, "a CPU, and nothing is trained"};
  if (count_operations(context).convolution_flops <= 0) return {false, train::kNoConvolutions};
  const std::int64_t rows = probed_rows(context);
  return probe_when_quiet({step_in(context, false, rows), step_in(context, true, rows)});
}

train::LayoutChoice choose(const LayoutContext& context) {
  if (context.before) return {*context.before, "as the run began"};
  if (!takes_images(context.model)) return {false, "the samples are not images"};
  if (context.experiment.model.type == "torchscript")
    return {false, "a TorchScript model keeps its own layout"};
  if (context.device.is_cpu()) return probe(context);
  if (!train::gains_by_channels_last(context.experiment.trainer.precision))
    return {false, "a GPU gains by it only in 16 bits"};
  return train::choose_layout(count_operations(context));
}

/// The same failure in training is reported with its step and its cause.
train::LayoutChoice choose_if_it_computes(const LayoutContext& context) {
  try {
    return choose(context);
  } catch (...) {
    return {false, "the model could not be tried with made-up samples"};
  }
}

}  // namespace

train::LayoutChoice choose_layout(const LayoutContext& context) {
  const auto& asked = context.experiment.trainer.channels_last;
  return asked.is_auto() ? choose_if_it_computes(context)
                         : train::LayoutChoice{*asked.value, "asked"};
}

train::LayoutChoice choose_layout(const LayoutContext& context, dist::Communicator& communicator) {
  if (!context.experiment.trainer.channels_last.is_auto()) return choose_layout(context);
  train::LayoutChoice choice{false, "rank 0's choice"};
  if (communicator.place().rank == 0) choice = choose_layout(context);
  const at::Tensor chosen = at::full({1}, choice.channels_last ? 1 : 0, at::kInt);
  communicator.broadcast(chosen, "broadcast of the memory format");
  choice.channels_last = *chosen.const_data_ptr<std::int32_t>() != 0;
  return choice;
}

}  // namespace trainctl::engine
