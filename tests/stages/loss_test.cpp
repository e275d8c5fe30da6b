#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

using namespace trainctl;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Loss> make_loss(const std::string& type, const std::string& options,
                                       stage::LossContext context = {3}) {
  return stages::builtin_catalog().losses.build(stages_test::stage("loss", type, options), context);
}

void check_losses(const Json& cases, const at::Tensor& all_logits, const at::Tensor& targets,
                  const stage::LossContext& context) {
  REQUIRE_FALSE(cases.empty());
  for (const Json& run : cases) {
    INFO(run["type"] << " " << run["options"]);
    const at::Tensor logits = all_logits.clone().requires_grad_(true);
    const at::Tensor loss =
        make_loss(run["type"], run["options"].dump(), context)->forward(logits, targets).mean();
    CHECK(loss.dim() == 0);
    CHECK(loss.scalar_type() == at::kFloat);
    loss.backward();
    CHECK(mismatch(loss.detach(), tensor(run["loss"])) == "");
    CHECK(mismatch(logits.grad(), tensor(run["gradient"])) == "");
  }
}

}  // namespace

TEST_CASE("losses: values and gradients equal PyTorch's") {
  const Json golden = stages_test::golden("losses");
  const at::Tensor logits = tensor(golden["logits"]);
  check_losses(golden["cases"], logits, tensor(golden["targets"], at::kLong), {3});
  check_losses(golden["of_numbers"], logits, tensor(golden["numbers"]),
               {3, at::kCPU, spec::Targets::numbers});
}

TEST_CASE("losses: sequences have the loss of their tokens as separate rows") {
  const at::Tensor logits = at::randn({2, 4, 3});
  const at::Tensor tokens = at::tensor({0, 1, 2, 2, 1, 0, 0, 1}, at::kLong);
  for (const char* type : {"cross_entropy", "nll", "focal"}) {
    INFO(type);
    const auto loss = make_loss(type, "{}");
    CHECK(mismatch(loss->forward(logits, tokens.view({2, 4})).mean(),
                   loss->forward(logits.view({8, 3}), tokens).mean()) == "");
  }
}

TEST_CASE("ignore_index: ignored rows have weight 0, and a batch of only such rows has loss 0") {
  const at::Tensor logits = at::randn({4, 3});
  for (const char* type : {"cross_entropy", "nll"}) {
    INFO(type);
    const auto loss = make_loss(type, "{ignore_index: -1, weight: [5, 1, 2]}");
    CHECK(loss->ignored_label() == -1);
    const auto some = loss->forward(logits, at::tensor({-1, 0, 2, -1}, at::kLong));
    CHECK(some.weight.item<double>() == 7);
    const auto none = loss->forward(logits, at::tensor({-1, -1, -1, -1}, at::kLong));
    CHECK(none.weight.item<double>() == 0);
    CHECK(none.value.item<double>() == 0);
  }
  CHECK_FALSE(make_loss("cross_entropy", "{}")->ignored_label());
}

TEST_CASE("focal: the gradient of a certain prediction is finite") {
  for (const double gamma : {0.1, 0.5, 2.0}) {
    INFO(gamma);
    const auto loss = make_loss("focal", fmt::format("{{gamma: {}}}", gamma));
    const at::Tensor logits = at::tensor({30.0F, 0.0F, 0.0F}).view({1, 3}).requires_grad_();
    loss->forward(logits, at::tensor({0}, at::kLong)).value.backward();
    CHECK(logits.grad().isfinite().all().item<bool>());
  }
}

TEST_CASE("focal: alpha with class labels is an error") {
  CHECK_THROWS_WITH(make_loss("focal", "{alpha: 0.25}"), Contains("remove it"));
}

TEST_CASE("cross_entropy: mixed labels have PyTorch's loss of class probabilities") {
  const Json golden = stages_test::golden("losses");
  const stage::MixedTargets targets{tensor(golden["targets"], at::kLong),
                                    tensor(golden["partners"], at::kLong),
                                    tensor(golden["lambda"])};
  REQUIRE(golden["mixed"].size() == 5);
  for (const Json& run : golden["mixed"]) {
    INFO(run["options"]);
    const at::Tensor logits = tensor(golden["logits"]).requires_grad_(true);
    const auto loss = make_loss("cross_entropy", run["options"].dump());
    const stage::LossValue value = loss->forward_mixed(logits, targets);
    CHECK_FALSE(value.weight.defined());  // PyTorch divides by the number of rows
    CHECK(value.value.dim() == 0);
    value.value.backward();
    CHECK(mismatch(value.value.detach(), tensor(run["loss"])) == "");
    CHECK(mismatch(logits.grad(), tensor(run["gradient"])) == "");
  }
}

TEST_CASE("nll: mixed labels have the loss of cross_entropy, given log-probabilities") {
  const Json golden = stages_test::golden("losses");
  const at::Tensor logits = tensor(golden["logits"]);
  const stage::MixedTargets targets{tensor(golden["targets"], at::kLong),
                                    tensor(golden["partners"], at::kLong),
                                    tensor(golden["lambda"])};
  for (const char* options : {"{}", "{weight: [1.0, 0.5, 2.0]}", "{ignore_index: 1}"}) {
    INFO(options);
    const stage::LossValue value =
        make_loss("nll", options)->forward_mixed(logits.log_softmax(1), targets);
    CHECK_FALSE(value.weight.defined());
    CHECK(mismatch(value.value,
                   make_loss("cross_entropy", options)->forward_mixed(logits, targets).value) ==
          "");
  }
}

TEST_CASE("bce_with_logits: the loss of mixed labels is the weighted sum for both classes") {
  const at::Tensor logits = at::randn({4, 3});
  const at::Tensor own = at::tensor({0, 1, 2, 2}, at::kLong);
  const at::Tensor partner = at::tensor({1, 1, 0, 1}, at::kLong);
  const at::Tensor lambda = at::zeros({4}, at::kFloat) + 0.3;
  for (const char* options : {"{}", "{pos_weight: [1.0, 0.5, 3.0]}"}) {
    INFO(options);
    const auto loss = make_loss("bce_with_logits", options);
    const at::Tensor expected =
        0.3 * loss->forward(logits, own).value + 0.7 * loss->forward(logits, partner).value;
    CHECK(mismatch(loss->forward_mixed(logits, {own, partner, lambda}).value, expected) == "");
  }
}

TEST_CASE("losses: mixed labels with lambda 1 have the loss of unmixed labels") {
  const at::Tensor logits = at::randn({4, 3}).log_softmax(1);
  const at::Tensor own = at::tensor({0, 1, 2, 2}, at::kLong);
  const stage::MixedTargets targets{own, at::tensor({1, 1, 0, 2}, at::kLong),
                                    at::zeros({4}, at::kFloat) + 1};
  for (const char* type : {"cross_entropy", "nll", "bce_with_logits"}) {
    const auto loss = make_loss(type, "{}");
    CHECK(mismatch(loss->forward_mixed(logits, targets).value, loss->forward(logits, own).value) ==
          "");
  }
  const auto smoothed = make_loss("cross_entropy", "{label_smoothing: 0.1}");
  CHECK(mismatch(smoothed->forward_mixed(logits, targets).value,
                 smoothed->forward(logits, own).value) == "");
}

TEST_CASE("mse: mixed labels are an error") {
  CHECK_THROWS_WITH(make_loss("mse", "{}")->forward_mixed(at::randn({4, 3}), {}),
                    Contains("does not take the mixed labels of batch_transforms"));
}

TEST_CASE("mse: targets with the shape of the logits are used unchanged") {
  const at::Tensor logits = at::randn({4, 3});
  CHECK(make_loss("mse", "{}")->forward(logits, logits).value.item<double>() == 0);
}

TEST_CASE("cross_entropy: weighted losses of parts of a batch add up to that of the whole") {
  const auto loss = make_loss("cross_entropy", "{weight: [5, 1, 0], label_smoothing: 0.1}");
  const at::Tensor logits = at::randn({6, 3});
  const at::Tensor targets = at::tensor({0, 1, 2, 2, 1, 0}, at::kLong);
  const stage::LossValue whole = loss->forward(logits, targets);
  CHECK(whole.weight.item<double>() == 12);
  double sum = 0;
  for (std::int64_t row = 0; row < 6; row += 2) {
    sum += loss->forward(logits.narrow(0, row, 2), targets.narrow(0, row, 2)).value.item<double>();
  }
  CHECK(sum / 12 == Approx(whole.mean().item<double>()).epsilon(1e-6));
  CHECK_FALSE(make_loss("cross_entropy", "{}")->forward(logits, targets).weight.defined());
}

TEST_CASE("losses: a label outside the classes is an error") {
  const at::Tensor labels = at::zeros({4}, at::kLong) + 3;
  CHECK_THROWS_AS(make_loss("cross_entropy", "{}")->forward(at::randn({4, 3}), labels), c10::Error);
  CHECK_THROWS_AS(make_loss("mse", "{}")->forward(at::randn({4, 3}), labels), c10::Error);
}

TEST_CASE("cross_entropy: a wrong number of class weights, or only zeros, is an error") {
  CHECK_THROWS_WITH(make_loss("cross_entropy", "{weight: [1, 2]}"),
                    Contains("weight has 2 values, but the data has 3"));
  CHECK_THROWS_WITH(make_loss("cross_entropy", "{weight: [0, 0, 0]}"),
                    Contains("must not be all zeros"));
}
