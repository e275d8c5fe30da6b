#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "device/host_read.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/setup/run_components.hpp"
#include "stages/optimizer/grouped.hpp"
#include "train/debug/numerics_file.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/loop/options.hpp"
#include "train/state/saved_state.hpp"
#include "train/state/weights.hpp"
#include "train/step/gradients.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::engine {
namespace {

constexpr const char* kPlace = "repeated step";  // of the host waits

using train::Numerics;
using train::StepRecord;

template <class Enum>
Enum called(const std::string& name) {
  const auto names = enum_names(Enum());
  const auto found = std::ranges::find(names, std::string_view(name));
  ENSURE(checkpoint, found != names.end(),
         "the saved step (--replay-step) has samples of the unknown kind '{}'", printable(name));
  return static_cast<Enum>(found - names.begin());
}

stage::ModelContext shape_of(const StepRecord& record, const config::Stage& task) {
  return model_context_of(
      {{called<spec::Inputs>(record.inputs), called<spec::Targets>(record.targets),
        record.vocab_size, record.padding_id},
       {record.input_shape.begin(), record.input_shape.end()},
       record.outputs},
      task);
}

/// The model with the weights of the dump.
struct Subject {
  stage::Catalog catalog;
  std::unique_ptr<stage::Model> model;
  std::unique_ptr<stage::Loss> loss;
  std::unique_ptr<stage::Task> task;
  std::vector<std::string> initialized;  // weights that are missing in the dump
};

Subject build_subject(const JobSetup& setup, const Numerics& numerics) {
  const spec::Experiment& experiment = setup.experiment;
  const stage::ModelContext shape = shape_of(numerics.record, experiment.task);
  Subject subject{catalog_in_use(), nullptr, nullptr, nullptr, {}};
  at::manual_seed(experiment.seed);
  subject.model = subject.catalog.models.build(experiment.model, shape);
  subject.model->to(setup.device);
  train::freeze(*subject.model, experiment.freeze);
  train::set_trained(train::unfreeze_later(*subject.model, experiment.unfreeze_at),
                     numerics.record.epoch);
  if (experiment.trainer.activation_checkpointing == spec::ActivationCheckpointing::blocks)
    subject.model->checkpoint_activations();
  for (const auto& [name, tensor] : train::weights_of(*subject.model)) {
    const at::NoGradGuard guard;
    const auto found = std::ranges::find(numerics.weights, name, &stage::NamedTensor::name);
    if (found != numerics.weights.end() && found->tensor.sizes() == tensor.sizes()) {
      tensor.copy_(found->tensor);
    } else {
      subject.initialized.push_back(name);
    }
  }
  if (experiment.trainer.channels_last.value_or(numerics.record.channels_last))
    train::lay_out_channels_last(*subject.model);
  subject.model->set_mode(stage::RunMode::train);
  subject.loss = subject.catalog.losses.build(experiment.loss,
                                              {shape.outputs, setup.device, shape.kind.targets});
  subject.task = build_task({experiment, subject.catalog, shape, setup.device});
  ENSURE(config, subject.task->trained() == nullptr,
         "the task '{}' trains a second model, whose weights the file does not contain, so the "
         "step cannot be repeated\nhint: resume from a checkpoint before the step",
         experiment.task.type);
  return subject;
}

/// Returns why the results may differ in their bits; empty if no reason is known.
std::string what_differs(const JobSetup& setup, const StepRecord& record) {
  const Machine machine = read_machine();
  const spec::Precision precision = setup.experiment.trainer.precision;
  const std::string now = enum_names(precision).at(static_cast<std::size_t>(precision));
  std::vector<std::string> all;
  const auto compare = [&](const char* what, const std::string& then, const std::string& here) {
    if (then != here) all.push_back(fmt::format("{} was {} and is now {}", what, then, here));
  };
  compare("device", record.device, setup.device.str());
  compare("precision", record.precision, now);
  compare("libtorch", record.torch, TORCH_VERSION);
  compare("number of threads", std::to_string(record.num_threads),
          std::to_string(at::get_num_threads()));
  compare("CPU", record.cpu, machine.cpu_model + " " + join(machine.cpu_features, " "));
  if (!record.random_kept) all.emplace_back("the RNG state was not saved");
  if (!record.repeated) all.emplace_back("the results of the step were not saved");
  return join(all, "; ");
}

/// Sets the generators to the recorded states, or if these do not fit the device, to the seed.
void set_random(const JobSetup& setup, const Numerics& numerics, std::vector<std::string>& notes) {
  at::manual_seed(setup.experiment.seed);
  if (numerics.random.empty()) return;
  try {
    train::set_random_states(setup.device, numerics.random);
  } catch (const Error& error) {
    notes.push_back(
        fmt::format("the random numbers were seeded instead of restored: {}", error.message()));
  }
}

/// Returns the name of a weight that becomes non-finite in one step of the experiment's optimizer,
/// starting without state; empty if none does, or if no such step would run.
std::string non_finite_weight_after_step(const JobSetup& setup, const Subject& subject,
                                         const train::RepeatedStep& step) {
  if (!step.is_finite()) return {};
  const stage::OptimizerContext trained{train::trained_parameters(*subject.model)};
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : trained.parameters) {
    const auto found = std::ranges::find(step.gradients, name, &stage::NamedTensor::name);
    if (found == step.gradients.end()) continue;
    gradients.push_back(found->tensor);
    parameter.mutable_grad() = found->tensor;
  }
  const auto optimizer =
      stages::build_optimizer(subject.catalog, setup.experiment.optimizer, trained);
  const spec::Trainer& trainer = setup.experiment.trainer;
  if (trainer.gradient_clip_val)
    train::Clipper(*trainer.gradient_clip_val, trainer.gradient_clip_algorithm)(gradients);
  optimizer->set_lr(optimizer->initial_lr());
  optimizer->step();
  return train::not_finite(subject.model->parameters());
}

events::Replayed described(const Numerics& numerics) {
  const StepRecord& record = numerics.record;
  events::Replayed event;
  event.rank = static_cast<int>(record.rank);
  event.epoch = record.epoch;
  event.global_step = record.global_step;
  event.batch = record.batch;
  event.rows = record.rows;
  event.cause = record.cause;
  event.recorded_loss = record.loss;
  event.recorded_first = record.first;
  if (!record.weights_before)
    event.notes.emplace_back(
        "the weights were saved after the optimizer step, perhaps after later steps");
  if (record.world_size > 1 || record.accumulate > 1)
    event.notes.emplace_back("only one batch of one rank is repeated, not the whole step");
  return event;
}

}  // namespace

int replay(const JobSetup& setup) {
  const spec::Job job = spec::read_job(setup.request.run_dir);
  Numerics numerics = train::read_numerics(job.replay);
  const StepRecord& record = numerics.record;
  ENSURE(config, numerics.batch.inputs.defined(),
         "cannot replay {}: the file contains no batch, because the run did not diverge in a "
         "training step ({})",
         printable(job.replay.string()), printable(record.cause));
  const auto& threads = setup.experiment.trainer.num_threads.value;
  at::set_num_threads(
      threads.value_or(static_cast<int>(std::max<std::int64_t>(record.num_threads, 1))));
  const Subject subject = build_subject(setup, numerics);
  events::Replayed event = described(numerics);
  event.initialized = subject.initialized;
  event.why_not = what_differs(setup, record);
  set_random(setup, numerics, event.notes);

  const device::DeviceBatch batch = device::with_tensors(
      numerics.batch,
      [&](const at::Tensor& tensor) { return device::copy_to(tensor, setup.device, kPlace); });
  train::ForwardOptions forward = train::forward_options(setup.experiment.trainer);
  forward.channels_last =
      setup.experiment.trainer.channels_last.value_or(numerics.record.channels_last);
  const bool scales = forward.precision == spec::Precision::fp16_mixed;
  const train::RepeatedStep step = train::repeat_step(
      {*subject.model, *subject.loss, *subject.task, train::samples_in(numerics)}, batch,
      {forward, scales ? record.loss_scale : 1});
  event.loss = device::value_of<double>(step.loss, kPlace);
  event.first = step.first;
  event.bitwise = record.repeated && train::digests_of(step) == record.digests;
  event.layers = step.layers;
  event.tensors = train::summaries_of(*subject.model, batch, step);
  numerics.row_losses = step.row_losses;
  event.bad_rows = train::bad_rows(numerics);
  event.non_finite_after_step = non_finite_weight_after_step(setup, subject, step);
  setup.emit(event);
  setup.emit(events::Finished{.global_step = record.global_step, .stop_reason = "replayed"});
  return 0;
}

}  // namespace trainctl::engine
