#include "engine/setup/task_setup.hpp"

#include "stages/optimizer/grouped.hpp"
#include "train/state/weights.hpp"
#include "train/step/forward.hpp"

namespace trainctl::engine {

std::unique_ptr<stage::Task> build_task(const TaskSetup& setup) {
  const spec::Experiment& experiment = setup.experiment;
  stage::TaskContext context{setup.model, setup.device, experiment.seed, setup.trains};
  context.build_frozen = [&](const config::Stage& frozen, const std::filesystem::path& weights) {
    auto model = setup.catalog.models.build(frozen, setup.model);
    model->to(setup.device);
    events::WeightsSet report;
    train::load_weights(*model, weights, {.whole = true}, report);
    for (const auto& [name, parameter] : model->parameters()) parameter.set_requires_grad(false);
    if (experiment.trainer.channels_last.value_or(false)) train::lay_out_channels_last(*model);
    model->set_mode(stage::RunMode::evaluate);
    return model;
  };
  context.build_trained = [&](const config::Stage& trained, const stage::ModelContext& samples,
                              const config::Stage& optimizer) {
    stage::TrainedModel built{setup.catalog.models.build(trained, samples), nullptr};
    built.model->to(setup.device);
    if (experiment.trainer.channels_last.value_or(false))
      train::lay_out_channels_last(*built.model);
    built.optimizer = stages::build_optimizer(setup.catalog, optimizer,
                                              {train::trained_parameters(*built.model)});
    return built;
  };
  return setup.catalog.tasks.build(experiment.task, context);
}

}  // namespace trainctl::engine
