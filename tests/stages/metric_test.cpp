#include "spec/monitor.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <cmath>

using namespace trainctl;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Metric> make(const std::string& type, const std::string& options,
                                    std::int64_t classes = 6) {
  return stages::builtin_catalogue().metrics.build(stages_test::stage("metric", type, options),
                                                   {classes});
}

}  // namespace

TEST_CASE("accuracies are PyTorch's, in one batch or in three") {
  const Json golden = stages_test::golden("metrics");
  const at::Tensor logits = tensor(golden["logits"]);
  const at::Tensor targets = tensor(golden["targets"], at::kLong);
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    const auto whole = make(run["type"], run["options"].dump());
    whole->update(logits, targets);
    CHECK(whole->value() == run["value"].get<double>());
    const auto parts = make(run["type"], run["options"].dump());
    for (const auto& [begin, end] : {std::pair(0, 5), std::pair(5, 6), std::pair(6, 12)}) {
      parts->update(logits.slice(0, begin, end), targets.slice(0, begin, end));
    }
    CHECK(parts->sums().equal(whole->sums()));
  }
}

TEST_CASE("the sums of two ranks add up to the sums of all rows") {
  const auto one = make("accuracy", "{}", 2);
  const auto other = make("accuracy", "{}", 2);
  one->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), tensor(Json{1, 1}, at::kLong));
  other->update(tensor(Json{{0.1, 0.9}, {0.2, 0.8}, {0.6, 0.4}}), tensor(Json{1, 1, 0}, at::kLong));
  CHECK(one->sums().scalar_type() == at::kDouble);
  one->sums().add_(other->sums());
  CHECK(one->value() == 0.8);
}

TEST_CASE("a metric starts again after reset") {
  const auto metric = make("accuracy", "{}", 2);
  CHECK(std::isnan(metric->value()));
  metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), tensor(Json{1, 1}, at::kLong));
  CHECK(metric->value() == 0.5);
  metric->reset();
  CHECK(std::isnan(metric->value()));
  metric->update(tensor(Json{{0.1, 0.9}}), tensor(Json{1}, at::kLong));
  CHECK(metric->value() == 1);
}

TEST_CASE("a metric counts under inference mode and keeps no graph in training") {
  const auto metric = make("accuracy", "{}", 2);
  const at::Tensor targets = tensor(Json{1, 1}, at::kLong);
  {
    const c10::InferenceMode guard;
    metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), targets);
  }
  metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}).requires_grad_(true), targets);
  CHECK_FALSE(metric->sums().requires_grad());
  CHECK(metric->value() == 0.5);
}

TEST_CASE("a metric's name says what it counts") {
  CHECK(make("accuracy", "{}")->name() == "accuracy");
  CHECK(make("top_k_accuracy", "{}")->name() == "top_5_accuracy");
  CHECK(make("top_k_accuracy", "{k: 2}")->name() == "top_2_accuracy");
}

TEST_CASE("the front half knows each metric by the same name") {
  for (const std::string type : {"accuracy", "top_k_accuracy"}) {
    CHECK(spec::metric_name(stages_test::stage("metric", type)) == make(type, "{}")->name());
  }
}

TEST_CASE("more places than classes are refused") {
  CHECK_THROWS_WITH(
      make("top_k_accuracy", "{k: 7}"),
      "metric 'top_k_accuracy': k is 7, but the data has 6 classes: k must be at most that");
}
