#include "engine/resolve/model_meter.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "data/core/run_control.hpp"
#include "engine/resolve/step_probe.hpp"
#include "train/measure/auto_settings.hpp"
#include "train/parallel/replicas.hpp"
#include "train/state/weights.hpp"

#include <ATen/Context.h>
#include <ATen/ops/full.h>

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

RunStages stages_of(const JobSetup& setup, const stage::Catalog& catalog,
                    const data::Pipeline& pipeline, dist::Communicator& communicator) {
  spec::Experiment experiment = setup.experiment;
  experiment.weights.reset();  // their values do not change the cost
  at::manual_seed(experiment.seed);
  const std::int64_t samples = pipeline.dataset->size();
  return build_stages({experiment, catalog, model_context_of(pipeline, experiment.task),
                       setup.device, spec::schedule_length(experiment, samples, 1),
                       setup.request.run_dir, &communicator});
}

/// A captured step would keep its memory, so steps run eagerly.
train::Options options_of(const JobSetup& setup) {
  train::Options options = train::options_from(setup.experiment, setup.device);
  options.cuda_graphs = {false};
  return options;
}

train::Session session_of(RunStages& stages, data::Loader& loader, dist::Communicator& communicator,
                          const spec::Distributed& exchange) {
  return {.model = *stages.model,
          .task = *stages.task,
          .loss = *stages.loss,
          .optimizer = *stages.optimizer,
          .scheduler = *stages.scheduler,
          .metrics = stages.metrics,
          .train = loader,
          .batch_size = 1,
          .communicator = communicator,
          .buckets = buckets_of(exchange),
          .clock = steady_clock(),
          .emit = [](const events::Event&) {},
          .run_dir = {}};
}

}  // namespace

ModelMeter::ModelMeter(const JobSetup& setup, const data::Pipeline& pipeline,
                       std::unique_ptr<dist::Communicator> communicator)
    : device_(setup.device),
      memory_(std::make_unique<train::MemoryMeter>(setup.device)),
      loader_(pipeline, {.batch_size = 1}),
      shape_(model_context_of(pipeline, setup.experiment.task)),
      catalog_(catalog_in_use()),
      communicator_(std::move(communicator)),
      stages_(stages_of(setup, catalog_, pipeline, *communicator_)),
      options_(options_of(setup)),
      session_(session_of(stages_, loader_, *communicator_, setup.experiment.distributed)),
      timer_(steady_clock(), nullptr),
      sync_(train::synchronize(session_, options_)),
      runner_(session_, options_, timer_, *sync_),
      gradients_stay_(setup.experiment.trainer.accumulate_grad_batches > 1 ||
                      spec::placement_of(setup.experiment.trainer, read_machine()).ranks > 1),
      may_leave_out_(setup.experiment.trainer.precision == spec::Precision::fp16_mixed ||
                     setup.experiment.trainer.skip_nonfinite_steps.value_or(0) > 0) {
  stages_.model->set_mode(stage::RunMode::train);
}

void ModelMeter::run_one(const train::MicroBatch& micro) {
  runner_.begin_step(/*lr=*/0, std::nullopt);
  ENSURE(diverged, runner_.run(micro) == train::StepRunner::Result::ok,
         "cannot measure the model: the loss or the gradient of synthetic samples is not finite");
  data::note_progress();
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
  (void)runner_.meter().total();  // waits for all work of the step
  runner_.meter().reset();
}

std::int64_t ModelMeter::peak_of(const device::DeviceBatch& batch, Window window) {
  memory_->restart_peak();
  run(batch, window);
  most_bytes_ = std::max(most_bytes_, memory_->peak());
  return memory_->peak() - memory_->live();
}

// An optimizer that checks the flag on the host needs no copies.
std::int64_t ModelMeter::copies_on_gpu() const {
  const stage::Optimizer& optimizer = *stages_.optimizer;
  if (!may_leave_out_ || !optimizer.skips_on_device() || optimizer.skips_in_kernel()) return 0;
  std::int64_t bytes = bytes_of(optimizer.state());
  for (const at::Tensor& parameter : train::trainable(*stages_.model))
    bytes += static_cast<std::int64_t>(parameter.nbytes());
  return bytes;
}

StepCost ModelMeter::step(std::int64_t rows) {
  const device::DeviceBatch batch = made_up_samples(shape_, rows, device_);
  const Window window = gradients_stay_ ? Window::stacked : Window::single;
  if (!std::exchange(has_state_, true)) (void)peak_of(batch, window);  // allocates the state
  StepCost cost;
  cost.rows = rows;
  cost.batch_bytes = static_cast<std::int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
  const double begin = steady_clock().now();
  cost.activation_bytes = peak_of(batch, window);
  cost.seconds = steady_clock().now() - begin;
  kept_.weights = bytes_of(train::weights_of(*stages_.model));
  kept_.gradients = gradient_bytes(*stages_.model);
  const std::int64_t others = kept_.weights + kept_.gradients + cost.batch_bytes;
  kept_.optimizer = std::max<std::int64_t>(memory_->live() - others, 0);
  return cost;
}

StepCost ModelMeter::stacked_step(std::int64_t rows) {
  StepCost cost = step(rows);
  cost.stacked_bytes = peak_of(made_up_samples(shape_, rows, device_), Window::stacked);
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
  cost.kernel_bytes = std::max(more.kernel_bytes, on_line(less.kernel_bytes, more.kernel_bytes));
  cost.seconds = std::max(less.seconds + part * (more.seconds - less.seconds), more.seconds);
  return cost;
}

SampleFlops ModelMeter::flops(std::int64_t rows) {
  const device::DeviceBatch batch = made_up_samples(shape_, rows, device_);
  SampleFlops flops;
  {
    const train::FlopCounter counter;
    const at::Tensor inputs = made_up_batch(shape_, rows, device_).inputs;
    (void)train::forward(*stages_.model, inputs, options_.forward);
    flops.forward = counter.count() / rows;
  }
  const train::FlopCounter counter;
  run(batch, Window::left_open);  // without the optimizer, which may multiply matrices, too
  flops.step = counter.count() / rows;
  return flops;
}

double ModelMeter::mean_step_s(const train::MicroBatch& micro, std::int64_t steps) {
  const double begin = steady_clock().now();
  for (std::int64_t i = 0; i < steps; ++i) {
    run_one(micro);
    (void)runner_.meter().total();  // waits for the work of the step
  }
  const double mine = (steady_clock().now() - begin) / static_cast<double>(steps);
  const at::Tensor all = at::full({1}, mine, at::kDouble);
  communicator_->sum(all, "sum of the times of steps");
  return *all.const_data_ptr<double>() / communicator_->rank_info().world_size;
}

TimedStep ModelMeter::time(std::int64_t rows) {
  constexpr double kRoundS = 0.2;  // minimum duration of a round
  constexpr double kMostSteps = 50;
  constexpr double kLongStepS = 1;
  memory_.reset();  // its reports take time
  const std::int64_t global_rows = rows * communicator_->rank_info().world_size;
  device::DeviceBatch batch = made_up_samples(shape_, rows, device_);
  batch.global_valid = global_rows;
  const train::MicroBatch micro{.batch = batch, .window_rows = global_rows};
  (void)mean_step_s(micro, train::warm_up_steps(device_));
  const double last_s = mean_step_s(micro, 1);
  const int rounds = last_s > kLongStepS ? 3 : 5;
  const auto steps =
      static_cast<std::int64_t>(std::clamp(kRoundS / std::max(last_s, 1e-9), 1.0, kMostSteps));
  timer_.begin_epoch();
  TimedStep timed;
  for (int i = 0; i < rounds; ++i) timed.rounds.push_back(mean_step_s(micro, steps));
  const events::Timing parts = timer_.end_epoch(rows);
  timed.seconds = median(timed.rounds);
  timed.backward_share = parts.wall_s > 0 ? parts.backward_s / parts.wall_s : 0;
  timed.exposed_s = parts.allreduce_exposed_s / static_cast<double>(rounds * steps);
  return timed;
}

}  // namespace trainctl::engine
