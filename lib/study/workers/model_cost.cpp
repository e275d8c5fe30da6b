#include "study/workers/model_cost.hpp"

#include "base/error.hpp"
#include "launch/process/signals.hpp"
#include "study/folder/scratch_folder.hpp"
#include "study/workers/model_task.hpp"

#include <optional>
#include <variant>

namespace trainctl::study {

namespace {

events::Measured measured_by(const ModelTask& task) {
  const launch::SignalGuard guard;  // until the scratch folder is gone
  const ScratchFolder folder(temporary_folder());
  std::optional<events::Measured> measured;
  run_model_task(task, folder.path(), [&](const events::Event& event) {
    if (const auto* found = std::get_if<events::Measured>(&event)) measured = *found;
  });
  ENSURE(unexpected, measured.has_value(), "the worker ended without a measurement");
  return *measured;
}

}  // namespace

events::Measured measure_model(const MeasureRequest& request) {
  const auto kind = request.times_steps ? spec::TaskKind::probe : spec::TaskKind::measure;
  return measured_by({.loaded = request.loaded,
                      .executable = request.executable,
                      .task = {.kind = kind},
                      .purpose = "measures the model",
                      .hint = "lower loader.batch_size, or leave the model out with --no-model"});
}

events::Measured measure_shared_steps(const MeasureRequest& request, const events::Measured& alone,
                                      int ranks) {
  using spec::ActivationCheckpointing;
  spec::Loaded loaded = request.loaded;
  spec::Trainer& trainer = loaded.experiment.trainer;
  trainer.devices.value = ranks;
  trainer.num_nodes = 1;
  trainer.activation_checkpointing =
      alone.recomputes ? ActivationCheckpointing::blocks : ActivationCheckpointing::off;
  loaded.experiment.loader.batch_size = alone.measured_batches.back();
  return measured_by({.loaded = loaded,
                      .executable = request.executable,
                      .task = {.kind = spec::TaskKind::probe},
                      .purpose = "times the steps of several ranks",
                      .hint = "lower loader.batch_size, or leave --devices out",
                      .ranks = ranks});
}

}  // namespace trainctl::study
