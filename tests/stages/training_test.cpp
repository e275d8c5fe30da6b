#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/core/grad_mode.h>

using namespace trainctl;
using stages_test::tensor;

// Compares the losses of model, loss and optimizer together with PyTorch's, from the same weights.

TEST_CASE("mlp: 10 training steps give PyTorch's losses") {
  const Json golden = stages_test::golden("models")["training"];
  const stage::Catalog all = stages::builtin_catalog();
  const auto model =
      all.models.build(stages_test::stage("model", "mlp", "{hidden: [5]}"), {{1, 2, 3}, 3});
  const auto parameters = model->parameters();
  REQUIRE(parameters.size() == golden["weights"].size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::NoGradGuard guard;
    REQUIRE(parameters[i].name == golden["weights"][i]["name"]);
    parameters[i].tensor.copy_(tensor(golden["weights"][i]["values"]));
  }
  const auto loss = all.losses.build(stages_test::stage("loss", "cross_entropy"), {3});
  const auto optimizer =
      all.optimizers.build(stages_test::stage("optimizer", "adam", "{lr: 0.05}"), {parameters});
  const at::Tensor inputs = tensor(golden["inputs"]);
  const at::Tensor targets = tensor(golden["targets"], at::kLong);
  for (const Json& expected : golden["losses"]) {
    const at::Tensor value = loss->forward(model->forward(inputs), targets).value;
    optimizer->zero_grad();
    value.backward();
    optimizer->step();
    CHECK(value.item<double>() == Approx(expected.get<double>()).epsilon(1e-5));
  }
}
