#include "spec/load.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/grouped.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"
#include "train/state/weights.hpp"

#include <ATen/ops/randn.h>

#include <map>

using namespace trainctl;

namespace {

std::map<std::string, at::Tensor> copies(const stage::Model& model) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, tensor] : model.parameters()) all[name] = tensor.detach().clone();
  for (const auto& [name, tensor] : model.buffers()) all[name] = tensor.clone();
  return all;
}

}  // namespace

TEST_CASE("cifar10_airbench.yaml: a step normalizes by the batch and updates what is not frozen") {
  config::Diagnostics diagnostics;
  const spec::Experiment experiment =
      spec::read_experiment(golden_folder() / "../../configs/speed/cifar10_airbench.yaml",
                            {"trainer.precision=32-true"}, diagnostics)
          .experiment;
  INFO(diagnostics.render());
  REQUIRE(diagnostics.error_count() == 0);
  at::manual_seed(1);
  const stage::Catalog catalog = stages::builtin_catalog();
  const auto model = catalog.models.build(experiment.model, {{3, 32, 32}, 10, {}});
  CHECK(train::freeze(*model, experiment.freeze).size() == 7);
  const stage::SchedulerContext run{0, 8, 25, std::nullopt};
  const auto optimizer = stages::build_optimizer(catalog, experiment.optimizer,
                                                 {train::trained_parameters(*model)}, &run);
  model->set_mode(stage::RunMode::train);
  const auto take_step = [&](std::int64_t epoch) {
    optimizer->zero_grad();
    model->forward(at::randn({8, 3, 32, 32})).square().mean().backward();
    optimizer->set_position(epoch, epoch * 25);
    optimizer->step();
  };
  const auto first = copies(*model);
  take_step(0);
  const auto second = copies(*model);
  for (const auto& [name, parameter] : model->parameters()) {
    INFO(name);
    CHECK(second.at(name).equal(first.at(name)) != parameter.requires_grad());
  }
  for (const char* name : {"4.running_mean", "21.running_var"}) {
    INFO(name);
    CHECK_FALSE(second.at(name).equal(first.at(name)));
  }
  take_step(3);  // the bias of the whitening layer is trained for three epochs
  const auto third = copies(*model);
  CHECK(third.at("0.bias").equal(second.at("0.bias")));
  CHECK_FALSE(third.at("4.bias").equal(second.at("4.bias")));
}
