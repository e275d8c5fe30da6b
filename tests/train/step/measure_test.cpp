#include "support/catch.hpp"
#include "train/fake_run.hpp"
#include "train/step/forward.hpp"

using namespace trainctl;

namespace {

/// Ignores one of the three labels.
struct IgnoringLoss final : stage::Loss {
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor counted = targets.ne(1);
    return {at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, 1),
            counted.sum().to(at::kFloat)};
  }
  [[nodiscard]] std::optional<std::int64_t> ignored_label() const override { return 1; }
};

}  // namespace

TEST_CASE("update_metrics: rows with an ignored label are excluded") {
  FakeRun run;
  IgnoringLoss loss;
  const at::Tensor labels = torch::tensor({0, 1, 2, 1}, torch::kLong);
  train::update_metrics(run.metrics, loss, torch::zeros({4, 3}), labels);
  CHECK(run.metric().total.item<double>() == 2);
  CHECK(run.metric().last_targets.equal(torch::tensor({0, 2}, torch::kLong)));
  train::update_metrics(run.metrics, loss, torch::zeros({2, 2, 3}), labels.view({2, 2}));
  CHECK(run.metric().total.item<double>() == 4);
  train::update_metrics(run.metrics, loss, torch::zeros({1, 3}), torch::tensor({1}, torch::kLong));
  CHECK(run.metric().total.item<double>() == 4);
}
