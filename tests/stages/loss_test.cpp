#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

using namespace trainctl;
using stages_test::difference;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Loss> make(const std::string& type, const std::string& options,
                                  std::int64_t classes = 3) {
  return stages::builtin_catalogue().losses.build(stages_test::stage("loss", type, options),
                                                  {classes});
}

}  // namespace

TEST_CASE("losses and their gradients are PyTorch's") {
  const Json golden = stages_test::golden("losses");
  const at::Tensor targets = tensor(golden["targets"], at::kLong);
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    const at::Tensor logits = tensor(golden["logits"]).requires_grad_(true);
    const at::Tensor loss =
        make(run["type"], run["options"].dump())->forward(logits, targets).mean();
    CHECK(loss.dim() == 0);
    CHECK(loss.scalar_type() == at::kFloat);
    loss.backward();
    CHECK(difference(loss.detach(), tensor(run["loss"])) <= 1e-6);
    CHECK(difference(logits.grad(), tensor(run["gradient"])) <= 1e-6);
  }
}

TEST_CASE("the loss of mixed rows is PyTorch's of probability targets") {
  const Json golden = stages_test::golden("losses");
  const stage::MixedTargets targets{tensor(golden["targets"], at::kLong),
                                    tensor(golden["partners"], at::kLong),
                                    tensor(golden["lambda"])};
  REQUIRE(golden["mixed"].size() == 5);
  for (const Json& run : golden["mixed"]) {
    INFO(run["options"]);
    const at::Tensor logits = tensor(golden["logits"]).requires_grad_(true);
    const auto loss = make("cross_entropy", run["options"].dump());
    const stage::LossValue value = loss->forward_mixed(logits, targets);
    CHECK_FALSE(value.weight.defined());  // PyTorch divides by the rows, whatever they weigh
    CHECK(value.value.dim() == 0);
    value.value.backward();
    CHECK(difference(value.value.detach(), tensor(run["loss"])) <= 1e-6);
    CHECK(difference(logits.grad(), tensor(run["gradient"])) <= 1e-6);
  }
}

TEST_CASE("rows that are all their own have the loss of unmixed rows") {
  const at::Tensor logits = at::randn({4, 3});
  const at::Tensor own = at::tensor({0, 1, 2, 2}, at::kLong);
  const stage::MixedTargets targets{own, at::tensor({1, 1, 0, 2}, at::kLong),
                                    at::zeros({4}, at::kFloat) + 1};
  const auto loss = make("cross_entropy", "{label_smoothing: 0.1}");
  CHECK(difference(loss->forward_mixed(logits, targets).value, loss->forward(logits, own).value) <=
        1e-6);
}

TEST_CASE("a loss without mixed rows says so") {
  CHECK_THROWS_WITH(make("mse", "{}")->forward_mixed(at::randn({4, 3}), {}),
                    Contains("does not take mixed labels"));
}

TEST_CASE("mse takes targets shaped like the logits as they are") {
  const at::Tensor logits = at::randn({4, 3});
  CHECK(make("mse", "{}")->forward(logits, logits).value.item<double>() == 0);
}

TEST_CASE("class weights come with their sum, so that parts of a batch add up to the whole") {
  const auto loss = make("cross_entropy", "{weight: [5, 1, 0], label_smoothing: 0.1}");
  const at::Tensor logits = at::randn({6, 3});
  const at::Tensor targets = at::tensor({0, 1, 2, 2, 1, 0}, at::kLong);
  const stage::LossValue whole = loss->forward(logits, targets);
  CHECK(whole.weight.item<double>() == 12);
  double sum = 0;
  for (std::int64_t row = 0; row < 6; row += 2) {
    sum += loss->forward(logits.narrow(0, row, 2), targets.narrow(0, row, 2)).value.item<double>();
  }
  CHECK(sum / 12 == Approx(whole.mean().item<double>()).epsilon(1e-6));
  CHECK_FALSE(make("cross_entropy", "{}")->forward(logits, targets).weight.defined());
}

TEST_CASE("a label beyond the classes is refused, not read out of bounds") {
  const at::Tensor labels = at::zeros({4}, at::kLong) + 3;
  CHECK_THROWS_AS(make("cross_entropy", "{}")->forward(at::randn({4, 3}), labels), c10::Error);
  CHECK_THROWS_AS(make("mse", "{}")->forward(at::randn({4, 3}), labels), c10::Error);
}

TEST_CASE("class weights have to fit the classes") {
  CHECK_THROWS_WITH(make("cross_entropy", "{weight: [1, 2]}"),
                    Contains("weight has 2 values, but the data has 3"));
  CHECK_THROWS_WITH(make("cross_entropy", "{weight: [0, 0, 0]}"), Contains("only zeros"));
}
