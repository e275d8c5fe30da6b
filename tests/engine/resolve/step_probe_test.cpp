#include "engine/resolve/step_probe.hpp"

#include "spec/options/loss.hpp"
#include "spec/options/model.hpp"
#include "spec/options/task.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;

TEST_CASE("throwaway_step: with data_parallel, a step has the samples of one device") {
  FakeModel* model = nullptr;
  stage::Catalog catalog;
  catalog.models.add<spec::model::Mlp>(
      "mlp", [&model](const spec::model::Mlp&, const stage::ModelContext&) {
        auto made = std::make_unique<FakeModel>();
        model = made.get();
        return made;
      });
  catalog.losses.add<spec::loss::CrossEntropy>(
      "cross_entropy", [](const spec::loss::CrossEntropy&, const stage::LossContext&) {
        return std::make_unique<FakeLoss>();
      });
  catalog.tasks.add_class<spec::task::Auto, stage::Task>("auto");
  spec::Experiment experiment;
  experiment.model = config::make_stage("model", "mlp", spec::model::Mlp{});
  experiment.loss = config::make_stage("loss", "cross_entropy", spec::loss::CrossEntropy{});
  experiment.loader.batch_size = 10;
  const auto rows_with = [&](int devices) {
    const auto step = engine::throwaway_step({.experiment = experiment,
                                              .catalog = catalog,
                                              .model = {.input_shape = {1, 2, 3}, .outputs = 3},
                                              .devices = devices});
    step();
    return model->rows;
  };
  CHECK(rows_with(1) == 10);
  CHECK(rows_with(2) == 5);
  CHECK(rows_with(3) == 4);  // the first devices get one more
}
