#include "engine/resolve/step_probe.hpp"

#include "base/machine/machine.hpp"
#include "data/core/run_control.hpp"
#include "device/host_read.hpp"
#include "engine/failure.hpp"
#include "engine/setup/task_setup.hpp"
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
#include <exception>

namespace trainctl::engine {
namespace {

constexpr const char* kPlace = "measurement of a step";  // of the host waits

train::ThreadChoice fixed(int threads, std::string why, double step_s = 0) {
  at::set_num_threads(threads);
  return {threads, std::move(why), step_s};
}

train::ThreadChoice probe(const ProbeContext& context) {
  const int cores = cores_of_rank(context.local_world_size);
  // Another number of threads would change the order of additions, and so the results.
  const std::optional<int> before = context.before.threads;
  if (before && *before <= cores)
    return {.threads = *before,
            .why = "as at the start of the run",
            .taken = context.before.threads_taken};
  if (cores == 1) return {1, "each process has only one core"};
  const train::ThreadProbe threads{cores, throwaway_step(context),
                                   [](int n) { at::set_num_threads(n); }};
  auto [choice, taken] =
      probe_when_quiet([&] { return train::probe_threads(threads, steady_clock()); });
  choice.taken = taken;
  if (taken > 0) {
    choice.step_s = 0;
    choice.why += fmt::format(", while other processes used {:.0f} % of the cores", 100 * taken);
  }
  return choice;
}

/// If the memory does not suffice, training reports it better than a probe.
train::ThreadChoice probe_that_fits(const ProbeContext& context) {
  try {
    return probe(context);
  } catch (...) {
    if (!refused_memory(std::current_exception())) throw;
    return {1, "the probe ran out of memory"};
  }
}

}  // namespace

device::DeviceBatch made_up_batch(const stage::ModelContext& model, std::int64_t rows,
                                  at::Device device) {
  std::vector<std::int64_t> shape = model.input_shape;
  shape.insert(shape.begin(), rows);
  const auto draw = [](std::int64_t below, at::IntArrayRef of) {
    return at::randint(std::max<std::int64_t>(below, 1), of, at::kLong);
  };
  const auto draw_classes = [&](at::IntArrayRef of) { return draw(model.outputs, of); };
  const std::int64_t tokens = model.kind.vocab_size > 0 ? model.kind.vocab_size : model.outputs;
  device::DeviceBatch batch;
  batch.valid = batch.global_valid = rows;
  batch.inputs = model.kind.inputs == spec::Inputs::tokens ? draw(tokens, shape) : at::randn(shape);
  switch (model.kind.targets) {
    case spec::Targets::classes: batch.targets = draw_classes({rows}); break;
    case spec::Targets::numbers: batch.targets = at::rand({rows, model.outputs}); break;
    case spec::Targets::tokens: batch.targets = draw_classes(shape); break;
    case spec::Targets::pixels: batch.targets = draw_classes({rows, shape[2], shape[3]}); break;
  }
  batch.inputs = device::copy_to(batch.inputs, device, kPlace);
  batch.targets = device::copy_to(batch.targets, device, kPlace);
  return batch;
}

device::DeviceBatch made_up_samples(const stage::ModelContext& model, std::int64_t rows,
                                    at::Device device) {
  device::DeviceBatch batch = made_up_batch(model, rows, device);
  if (model.output_shape.empty()) return batch;
  std::vector<std::int64_t> shape = model.output_shape;
  shape.insert(shape.begin(), rows);
  batch.inputs = device::copy_to(at::randn(shape), device, kPlace);
  return batch;
}

std::function<void()> throwaway_step(const ProbeContext& context) {
  const spec::Experiment& experiment = context.experiment;
  const std::shared_ptr<stage::Model> model =
      context.catalog.models.build(experiment.model, context.model);
  model->to(context.device);
  train::ForwardOptions options = train::forward_options(experiment.trainer);
  if (options.channels_last) train::lay_out_channels_last(*model);
  const std::shared_ptr<stage::Loss> loss = context.catalog.losses.build(
      experiment.loss, {context.model.outputs, context.device, context.model.kind.targets});
  const std::shared_ptr<stage::Task> task =
      build_task({experiment, context.catalog, context.model, context.device, context.trains});
  options.widens_logits = !loss->accepts_16_bit();
  const std::int64_t rows = (experiment.loader.batch_size + context.devices - 1) / context.devices;
  const device::DeviceBatch batch = made_up_samples(context.model, rows, context.device);
  const auto mode = context.trains ? stage::RunMode::train : stage::RunMode::evaluate;
  return [model, loss, task, batch, options, mode] {
    for (const auto& [name, parameter] : model->parameters()) parameter.mutable_grad().reset();
    train::PlainTools tools(*model, *loss, options, mode);
    const at::Tensor value = task->step(batch, tools).loss.value;
    value.backward();
    (void)device::value_of<float>(value, kPlace);  // waits for all work of the step
    data::note_progress();
  };
}

train::ThreadChoice choose_threads(const ProbeContext& context, dist::Communicator& communicator) {
  const spec::Trainer& trainer = context.experiment.trainer;
  if (trainer.num_threads.value) return fixed(*trainer.num_threads.value, "configured");
  if (!context.device.is_cpu()) return fixed(1, "training runs on the GPU");
  if (trainer.deterministic) return fixed(1, "deterministic");
  train::ThreadChoice choice{0, "chosen by rank 0"};
  if (communicator.rank_info().rank == 0) choice = probe_that_fits(context);
  const at::Tensor threads = at::full({1}, choice.threads, at::kInt);
  communicator.broadcast(threads, "broadcast of the number of threads");
  train::ThreadChoice taken =
      fixed(*threads.const_data_ptr<std::int32_t>(), std::move(choice.why), choice.step_s);
  taken.taken = choice.taken;
  return taken;
}

std::optional<events::Warning> contention_warning(const events::RunStarted& started) {
  if (!(started.num_threads_taken > 0)) return std::nullopt;
  return events::Warning{
      fmt::format("trainer.num_threads: auto chose {}, but other processes used {:.0f} % of the "
                  "cores during the measurement, so the choice may be wrong{}",
                  started.num_threads, 100 * started.num_threads_taken,
                  started.world_size > 1
                      ? ""
                      : "; if it is, the summary at the end of this run suggests another value"),
      ""};
}

namespace {

/// Counts on the CPU for any device, because the shapes are the same.
train::LayoutFacts count_operations(const ProbeContext& context) {
  const at::NoGradGuard guard;
  const std::unique_ptr<stage::Model> model =
      context.catalog.models.build(context.experiment.model, context.model);
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor inputs = made_up_batch(context.model, 1, at::kCPU).inputs;
  const train::FlopCounter counter;
  (void)model->forward(inputs);
  return {counter.count(), counter.image_convolutions()};
}

std::function<void()> step_in(const ProbeContext& context, bool channels_last, std::int64_t rows) {
  spec::Experiment experiment = context.experiment;
  experiment.trainer.channels_last.value = channels_last;
  experiment.loader.batch_size = rows;
  return throwaway_step({experiment, context.catalog, context.model, context.device});
}

/// Returns how many rows of the run's batch fit in a step of about 0.1 seconds; part of a batch is
/// representative for long steps.
std::int64_t probed_rows(const ProbeContext& context) {
  constexpr double kStepS = 0.1;
  constexpr std::int64_t kFewProbeRows = 8;
  const std::int64_t batch = context.experiment.loader.batch_size;
  if (batch <= kFewProbeRows) return batch;
  const std::function<void()> few = step_in(context, false, kFewProbeRows);
  few();
  const double begin = steady_clock().now();
  few();
  const double row_s = std::max(steady_clock().now() - begin, 1e-9) / kFewProbeRows;
  return std::clamp(static_cast<std::int64_t>(kStepS / row_s), kFewProbeRows, batch);
}

/// On a busy machine the measurement would be random, but the choice would hold for the whole run,
/// so the format stays unchanged.
train::LayoutChoice choose_on_cpu(const ProbeContext& context) {
  if (context.experiment.trainer.deterministic) return {false, "deterministic"};
  if (!context.trains) return {false, "evaluation on a CPU"};
  if (count_operations(context).convolution_flops <= 0) return {false, train::kNoConvolutions};
  const std::int64_t rows = probed_rows(context);
  const train::LayoutProbe formats{step_in(context, false, rows), step_in(context, true, rows)};
  auto [choice, taken] =
      probe_when_quiet([&] { return train::probe_layout(formats, steady_clock()); });
  if (taken == 0) return choice;
  return {false, fmt::format("undecided, because other processes used {:.0f} % of the cores",
                             100 * taken)};
}

train::LayoutChoice choose(const ProbeContext& context) {
  if (context.before.channels_last)
    return {*context.before.channels_last, "as at the start of the run"};
  if (context.model.kind.inputs != spec::Inputs::images || context.model.input_shape.size() != 3)
    return {false, "the samples are not images"};
  if (context.experiment.model.type == "torchscript")
    return {false, "a TorchScript model keeps its own layout"};
  if (context.device.is_cpu()) return choose_on_cpu(context);
  if (!train::gains_by_channels_last(context.experiment.trainer.precision))
    return {false, "channels_last is faster on a GPU only in 16-bit precision"};
  return train::choose_layout(count_operations(context));
}

/// If the model fails in training, too, that error is reported with its step and cause.
train::LayoutChoice choose_if_it_computes(const ProbeContext& context) {
  try {
    return choose(context);
  } catch (...) {
    return {false, "the model failed with synthetic samples"};
  }
}

}  // namespace

train::LayoutChoice resolve_layout(const ProbeContext& context, dist::Communicator& communicator) {
  const auto& asked = context.experiment.trainer.channels_last;
  if (!asked.is_auto()) return {*asked.value, "configured"};
  train::LayoutChoice choice{false, "chosen by rank 0"};
  if (communicator.rank_info().rank == 0) choice = choose_if_it_computes(context);
  const at::Tensor chosen = at::full({1}, choice.channels_last ? 1 : 0, at::kInt);
  communicator.broadcast(chosen, "broadcast of the memory format");
  choice.channels_last = *chosen.const_data_ptr<std::int32_t>() != 0;
  return choice;
}

}  // namespace trainctl::engine
