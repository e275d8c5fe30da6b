#include "engine/parts.hpp"

#include "base/error.hpp"
#include "data/build.hpp"
#include "data/cache/cache.hpp"
#include "data/mixer.hpp"
#include "data/roles.hpp"
#include "dist/group.hpp"
#include "launch/store.hpp"
#include "spec/monitor.hpp"

namespace trainctl::engine {
namespace {

std::unique_ptr<data::Loader> build_loader(const data::Pipeline& pipeline,
                                           const data::LoaderOptions& options) {
  return std::make_unique<data::Loader>(pipeline, options);
}

void check_same_samples(const data::Loader& train, const data::Loader& validation) {
  ENSURE(config, data::unmixed_layout(train.layout()) == validation.layout(),
         "dataset.val: its samples have another shape than those of dataset.train; give both "
         "splits the same size of image, or the same columns");
  ENSURE(config, train.classes() == validation.classes(),
         "dataset.val has {} classes, dataset.train {}", validation.classes(), train.classes());
}

}  // namespace

stage::ModelContext RunData::model_context() const {
  const data::Roles roles = data::roles_of(train->layout());
  return {roles.input_shape, roles.outputs(train->classes())};
}

RunData build_data(const spec::Experiment& experiment, data::Shard shard, at::Device device) {
  const auto trains_on = device.is_cpu() ? data::TrainsOn::cpu : data::TrainsOn::gpu;
  RunData out;
  data::CacheBudget cache(experiment.dataset.cache, shard.world_size);
  in_context("dataset.train", [&] {
    const data::Pipeline pipeline =
        data::with_cache(data::build_pipeline(experiment.dataset.train), cache);
    const data::LoaderOptions options =
        data::loader_options(experiment, data::Role::train, shard, trains_on);
    out.num_workers = options.num_workers;
    out.fingerprints["train"] = pipeline.dataset->fingerprint();
    out.train = build_loader(pipeline, options);
  });
  if (!spec::validates(experiment)) return out;
  in_context("dataset.val", [&] {
    const data::Pipeline pipeline =
        data::with_cache(data::build_pipeline(*experiment.dataset.val), cache);
    out.fingerprints["val"] = pipeline.dataset->fingerprint();
    out.validation = build_loader(
        pipeline, data::loader_options(experiment, data::Role::evaluate, shard, trains_on));
  });
  check_same_samples(*out.train, *out.validation);
  return out;
}

RunStages build_stages(const StageSetup& setup) {
  const spec::Experiment& experiment = setup.experiment;
  const stage::Catalogue& catalogue = setup.catalogue;
  RunStages stages;
  stages.model = catalogue.models.build(experiment.model, setup.model);
  stages.model->to(setup.device);
  stages.loss = catalogue.losses.build(experiment.loss, {setup.model.outputs, setup.device});
  stage::OptimizerContext trained;
  for (const stage::NamedTensor& parameter : stages.model->parameters()) {
    if (parameter.tensor.requires_grad()) trained.parameters.push_back(parameter);
  }
  stages.optimizer = catalogue.optimizers.build(experiment.optimizer, trained);
  const spec::RunLength& length = setup.schedule;
  stages.scheduler = catalogue.schedulers.build(
      experiment.scheduler,
      {stages.optimizer->initial_lr(), length.epochs, length.steps_per_epoch, length.steps});
  if (experiment.early_stopping)
    stages.stopper = catalogue.stoppers.build(experiment.early_stopping, {});
  for (const config::Stage& metric : experiment.metrics) {
    stages.metrics.push_back(catalogue.metrics.build(metric, {setup.model.outputs, setup.device}));
  }
  return stages;
}

std::unique_ptr<dist::Communicator> build_communicator(const TrainctlEngineRequest& request,
                                                       const spec::Distributed& options,
                                                       at::Device device) {
  using spec::Backend;
  if (request.world_size == 1) return dist::make_single();
  ENSURE(
      config, options.backend != Backend::nccl || device.is_cuda(),
      "distributed.backend=nccl exchanges between GPUs, but this run is on CPUs: use gloo or auto");
  ENSURE(
      config, options.backend != Backend::gloo || device.is_cpu(),
      "distributed.backend=gloo exchanges between CPUs, but this run is on GPUs: use nccl or auto");
  dist::GroupOptions group;
  group.place = {request.rank, request.world_size};
  group.store = std::make_shared<launch::StoreClient>(request.store_fd);
  group.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  return device.is_cuda() ? dist::make_nccl(group, device) : dist::make_gloo(group);
}

}  // namespace trainctl::engine
