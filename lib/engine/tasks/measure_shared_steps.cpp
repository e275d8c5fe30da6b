#include "base/error.hpp"
#include "base/machine/core_use.hpp"
#include "data/core/pipeline.hpp"
#include "data/remote/mount.hpp"
#include "engine/resolve/layout.hpp"
#include "engine/resolve/model_meter.hpp"
#include "engine/resolve/step_probe.hpp"
#include "engine/setup/plugins.hpp"
#include "engine/tasks/measure_shared_steps_task.hpp"

#include <utility>

namespace trainctl::engine {
namespace {

data::Pipeline training_samples(const spec::Experiment& experiment) {
  data::mount_remote(experiment.dataset);
  const spec::DataSplit& split = experiment.dataset.train;  // of single samples, none mixed
  return in_context("dataset.train", [&] { return data::build_pipeline(split); });
}

stage::ModelContext context_of(const data::Pipeline& pipeline) {
  RunData data;
  data.train = pipeline;
  return data.model_context();
}

events::Measured described(const TaskSetup& setup, const TimedStep& step, int num_threads) {
  events::Measured measured;
  measured.device = setup.device.str();
  measured.batch_size = setup.experiment.loader.batch_size;
  measured.measured_batches = {measured.batch_size};
  measured.ranks = setup.request.world_size;
  measured.num_threads = num_threads;
  measured.step_s = step.seconds;
  measured.step_rounds_s = step.rounds;
  measured.exposed_s = step.exposed_s;
  measured.backward_s = step.seconds * step.backward_share;
  return measured;
}

}  // namespace

int measure_shared_steps(const TaskSetup& setup) {
  spec::Experiment experiment = setup.experiment;
  const data::Pipeline pipeline = training_samples(experiment);
  auto communicator =
      build_communicator(setup.request, experiment.distributed, setup.device, nullptr);
  const stage::Catalogue catalogue = catalogue_in_use();
  const stage::ModelContext shape = context_of(pipeline);
  const train::ThreadChoice threads = choose_threads(
      {experiment, catalogue, shape, setup.device, setup.request.local_world_size}, *communicator);
  experiment.trainer.channels_last.value =
      choose_layout({experiment, catalogue, shape, setup.device}, *communicator).channels_last;
  const TaskSetup resolved{setup.request, experiment, setup.device, setup.emit};
  ModelMeter meter(resolved, pipeline, std::move(communicator));
  const CoreUseMeter others;
  const TimedStep step = meter.time(experiment.loader.batch_size);
  if (setup.request.rank == 0) {
    events::Measured measured = described(resolved, step, threads.threads);
    measured.taken_cores = others.taken();
    setup.emit(measured);
  }
  setup.emit(events::Finished{0, 0, {}, {}, "measured"});
  return 0;
}

}  // namespace trainctl::engine
