#include "engine/model_meter.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine.hpp"
#include "engine/plugins.hpp"
#include "engine/threads.hpp"
#include "spec/placement.hpp"
#include "train/flops.hpp"
#include "train/threads.hpp"
#include "train/trainer.hpp"
#include "train/weights.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <utility>

namespace trainctl::engine {
namespace {

std::int64_t bytes_of(const std::vector<stage::NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::int64_t gradient_bytes(const stage::Model& model) {
  std::int64_t bytes = 0;
  for (const at::Tensor& parameter : train::trainable(model)) {
    if (parameter.grad().defined()) bytes += static_cast<std::int64_t>(parameter.grad().nbytes());
  }
  return bytes;
}

stage::ModelContext shape_of(const data::Pipeline& pipeline) {
  RunData data;
  data.train = pipeline;
  return data.model_context();
}

RunStages stages_of(const TaskSetup& setup, const stage::Catalogue& catalogue,
                    const stage::ModelContext& shape, std::int64_t samples) {
  spec::Experiment experiment = setup.experiment;
  experiment.weights.reset();  // their values change nothing
  at::manual_seed(experiment.seed);
  return build_stages({experiment, catalogue, shape, setup.device,
                       spec::schedule_length(experiment, samples, 1), setup.request.run_dir});
}

/// Each step stands for itself: one that is recorded holds its memory.
train::Options options_of(const TaskSetup& setup) {
  train::Options options = train::options_from(setup.experiment, setup.device);
  options.cuda_graphs = {false};
  return options;
}

/// With accumulation the gradients of a window add up; those of several ranks lie in buckets.
bool keeps_gradients(const spec::Trainer& trainer) {
  return trainer.accumulate_grad_batches > 1 ||
         spec::placement_of(trainer, read_machine()).ranks > 1;
}

/// Whether the run goes on after a step that is not finite.
bool may_leave_out(const spec::Trainer& trainer) {
  return trainer.precision == spec::Precision::fp16_mixed ||
         trainer.skip_nonfinite_steps.value_or(0) > 0;
}

train::Session session_of(RunStages& stages, data::Loader& loader,
                          dist::Communicator& communicator) {
  return {.model = *stages.model,
          .loss = *stages.loss,
          .optimizer = *stages.optimizer,
          .scheduler = *stages.scheduler,
          .stopper = nullptr,
          .metrics = stages.metrics,
          .train = loader,
          .validation = nullptr,
          .batch_size = 1,
          .communicator = communicator,
          .buckets = {},
          .clock = steady_clock(),
          .emit = [](const events::Event&) {},
          .heartbeat = nullptr,
          .stop_signal = nullptr,
          .run_dir = {}};
}

}  // namespace

ModelMeter::ModelMeter(const TaskSetup& setup, const data::Pipeline& pipeline)
    : device_(setup.device),
      memory_(std::make_unique<train::MemoryMeter>(setup.device)),
      loader_(pipeline, {.batch_size = 1}),
      shape_(shape_of(pipeline)),
      catalogue_(catalogue_in_use()),
      stages_(stages_of(setup, catalogue_, shape_, pipeline.dataset->size())),
      communicator_(dist::make_single()),
      options_(options_of(setup)),
      session_(session_of(stages_, loader_, *communicator_)),
      timer_(steady_clock(), nullptr),
      sync_(communicator_->sync_gradients(train::trainable(*stages_.model), session_.buckets)),
      runner_(session_, options_, timer_, *sync_),
      gradients_stay_(keeps_gradients(setup.experiment.trainer)),
      may_leave_out_(may_leave_out(setup.experiment.trainer)) {
  stages_.model->set_mode(stage::RunMode::train);
}

device::DeviceBatch ModelMeter::batch_of(std::int64_t rows) const {
  const MadeUpBatch made = made_up_batch(shape_, rows, device_);
  device::DeviceBatch batch;
  batch.inputs = made.inputs;
  batch.targets = made.targets;
  batch.valid = batch.global_valid = rows;
  return batch;
}

void ModelMeter::run_one(const train::MicroBatch& micro) {
  ENSURE(diverged, runner_.run(micro, /*lr=*/0) == train::StepRunner::Result::ok,
         "the loss or the gradient of made-up samples is not finite, so that the model cannot be "
         "measured");
}

void ModelMeter::run(const device::DeviceBatch& batch, Window window) {
  train::MicroBatch micro{.batch = batch, .window_rows = batch.valid};
  if (window == Window::stacked) {
    micro.window_rows = 2 * batch.valid;
    micro.closes = false;
    run_one(micro);
    micro.opens = false;
  }
  micro.closes = window != Window::left_open;
  run_one(micro);
  (void)runner_.meter().total();  // behind all work of the step
  runner_.meter().reset();
}

std::int64_t ModelMeter::peak_of(const device::DeviceBatch& batch, Window window) {
  memory_->restart_peak();
  run(batch, window);
  most_bytes_ = std::max(most_bytes_, memory_->peak());
  return memory_->peak() - memory_->live();
}

void ModelMeter::count_kept(std::int64_t batch_bytes) {
  kept_.weights = bytes_of(train::weights_of(*stages_.model));
  kept_.gradients = gradient_bytes(*stages_.model);
  kept_.optimizer =
      std::max<std::int64_t>(memory_->live() - kept_.weights - kept_.gradients - batch_bytes, 0);
}

// One that looks at the flag on the host needs no copies.
std::int64_t ModelMeter::copies_on_gpu() const {
  const stage::Optimizer& optimizer = *stages_.optimizer;
  if (!may_leave_out_ || !optimizer.skips_on_device() || optimizer.skips_for_nothing()) return 0;
  std::int64_t bytes = bytes_of(optimizer.state());
  for (const at::Tensor& parameter : train::trainable(*stages_.model))
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  return bytes;
}

StepCost ModelMeter::step(std::int64_t rows) {
  const device::DeviceBatch batch = batch_of(rows);
  const Window window = gradients_stay_ ? Window::stacked : Window::single;
  (void)peak_of(batch, window);  // makes the optimizer's state
  (void)peak_of(batch, window);
  StepCost cost;
  cost.rows = rows;
  cost.batch_bytes = static_cast<std::int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
  const double begin = steady_clock().now();
  cost.activation_bytes = peak_of(batch, window);
  cost.seconds = steady_clock().now() - begin;
  count_kept(cost.batch_bytes);
  return cost;
}

StepCost ModelMeter::stacked_step(std::int64_t rows) {
  StepCost cost = step(rows);
  cost.stacked_bytes = peak_of(batch_of(rows), Window::stacked);
  return cost;
}

StepCost ModelMeter::extrapolated(const StepCost& less, const StepCost& more,
                                  std::int64_t rows) const {
  const double part =
      static_cast<double>(rows - less.rows) / static_cast<double>(more.rows - less.rows);
  const auto on_line = [part](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(part * static_cast<double>(to - from));
  };
  StepCost cost;
  cost.rows = rows;
  cost.batch_bytes = on_line(less.batch_bytes, more.batch_bytes);
  cost.stacked_bytes = on_line(less.stacked_bytes, more.stacked_bytes);
  const std::int64_t absent = gradients_stay_ ? 0 : kept_.gradients;
  cost.activation_bytes = std::max(more.activation_bytes, cost.stacked_bytes - absent);
  cost.seconds = std::max(less.seconds + part * (more.seconds - less.seconds), more.seconds);
  return cost;
}

SampleFlops ModelMeter::flops(std::int64_t rows) {
  const device::DeviceBatch batch = batch_of(rows);
  SampleFlops flops;
  {
    const train::FlopCounter counter;
    (void)train::forward(*stages_.model, batch.inputs, options_.forward);
    flops.forward = counter.count() / rows;
  }
  const train::FlopCounter counter;
  run(batch, Window::left_open);  // without the optimizer, which may multiply, too
  flops.step = counter.count() / rows;
  return flops;
}

TimedStep ModelMeter::time(std::int64_t rows) {
  memory_.reset();  // its reports take time
  const device::DeviceBatch batch = batch_of(rows);
  const train::MicroBatch micro{.batch = batch, .window_rows = rows};
  timer_.begin_epoch();
  const double seconds = train::time_steps(
      [&] {
        run_one(micro);
        (void)runner_.meter().total();
      },
      steady_clock());
  const events::Timing parts = timer_.end_epoch(rows);
  const double share = parts.wall_s > 0 ? parts.backward_s / parts.wall_s : 0;
  return {seconds, share};
}

}  // namespace trainctl::engine
