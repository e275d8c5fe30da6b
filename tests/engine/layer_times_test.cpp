#include "train/measure/layer_times.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"
#include "train/debug/anomaly_detector.hpp"
#include "train/fake_run.hpp"
#include "train/measure/resource_counters.hpp"

#include <ATen/record_function.h>

#include <algorithm>

using namespace trainctl;
using train::LayerRow;

namespace {

constexpr const char* kConvnet =
    "{layers: [{type: conv2d, out_channels: 8, kernel_size: 3}, relu, {type: conv2d, out_channels: "
    "4, kernel_size: 3, stride: 2, padding: 1}, {type: adaptive_avg_pool2d, output_size: 1}, "
    "flatten, linear]}";

std::unique_ptr<stage::Model> timed_model(const std::string& type, const std::string& options,
                                          const stage::ModelContext& context) {
  at::manual_seed(1);
  return stages::builtin_catalog().models.build(stage_from("model", type, options), context);
}

/// Runs a step with the trainer's names of its parts.
void step(stage::Model& model, const at::Tensor& input) {
  at::Tensor output;
  {
    RECORD_USER_SCOPE("forward");
    output = model.forward(input);
  }
  const at::Tensor loss = output.square().mean();
  RECORD_USER_SCOPE("backward");
  loss.backward();
}

std::vector<LayerRow> rows_of(stage::Model& model, const at::Tensor& input, int steps = 1) {
  const TickingClock clock;
  train::LayerTimes times(model, at::kCPU, clock);
  for (int i = 0; i < steps; ++i) {
    step(model, input);
    times.end_step();
  }
  return times.finish();
}

const LayerRow& row(const std::vector<LayerRow>& rows, const std::string& layer) {
  const auto found = std::ranges::find(rows, layer, &LayerRow::layer);
  if (found == rows.end()) FAIL("no row " << layer);
  return *found;
}

double all_gflops(const std::vector<LayerRow>& rows) {
  double sum = 0;
  for (const LayerRow& one : rows) sum += one.gflops;
  return sum;
}

}  // namespace

TEST_CASE(
    "LayerTimes: each layer has its operator, operations, output shape and share of the step") {
  const auto model = timed_model("sequential", kConvnet, {{1, 10, 10}, 5});
  const auto rows = rows_of(*model, at::randn({2, 1, 10, 10}), 3);
  const double first = 2.0 * 2 * 8 * 1 * 3 * 3 * 8 * 8;  // 2 N K C R S P Q
  const double second = 2.0 * 2 * 4 * 8 * 3 * 3 * 4 * 4;
  CHECK(row(rows, "0").gflops * 1e9 == Approx(2 * first));  // no gradient of the input
  CHECK(row(rows, "2").gflops * 1e9 == Approx(3 * second));
  CHECK(row(rows, "5").gflops * 1e9 == Approx(3 * 2.0 * 2 * 4 * 5));
  CHECK(row(rows, "0").kind == "conv2d");
  CHECK(row(rows, "5").kind == "linear");
  CHECK(row(rows, "0").output == std::vector<std::int64_t>{2, 8, 8, 8});
  CHECK(row(rows, "2").output == std::vector<std::int64_t>{2, 4, 4, 4});
  CHECK(row(rows, "2").calls == 1);
  double shares = 0;
  for (const LayerRow& one : rows) {
    INFO(one.layer);
    CHECK(one.forward_ms > 0);
    CHECK(one.backward_ms > 0);
    shares += one.share;
  }
  CHECK(shares > 0);
  CHECK(shares < 1);
  CHECK(rows.back().layer == "(loss)");
}

TEST_CASE("LayerTimes: operations sum to those of the step, also with recomputation") {
  const auto model = timed_model("resnet18", "{}", {{3, 32, 32}, 10});
  const at::Tensor input = at::randn({2, 3, 32, 32});
  double counted = 0;
  {
    const train::FlopCounter counter;
    model->forward(input).square().mean().backward();
    counted = static_cast<double>(counter.count()) * 1e-9;
  }
  const auto rows = rows_of(*model, input);
  CHECK(all_gflops(rows) == Approx(counted));
  const double once = row(rows, "layer2.1.conv1").gflops;
  CHECK(once > 0);
  REQUIRE(model->checkpoint_activations());
  const auto again = rows_of(*model, input);
  CHECK(row(again, "layer2.1.conv1").gflops == Approx(once * 4 / 3));
  CHECK(row(again, "layer2.1.conv1").calls == 1);
}

TEST_CASE("LayerTimes: frozen and unused layers have rows") {
  FakeModel model;  // 'weight' and 'bias' are inputs of one operator
  const auto rows = rows_of(model, at::ones({4, 6}));
  CHECK(row(rows, "bias").kind == "linear");
  CHECK(row(rows, "weight").kind.empty());
  CHECK(row(rows, "weight").share == 0);
  const auto frozen = timed_model("sequential", kConvnet, {{1, 10, 10}, 5});
  for (const auto& [name, tensor] : frozen->parameters())
    tensor.requires_grad_(name.starts_with("5"));
  const auto halves = rows_of(*frozen, at::randn({2, 1, 10, 10}));
  CHECK(row(halves, "0").forward_ms > 0);
  CHECK(row(halves, "0").backward_ms == 0);
}

TEST_CASE("LayerTimes: an embedding shared with the output layer has one row") {
  const auto gpt = timed_model("gpt", "{layers: 1, heads: 2, width: 16, context: 8}",
                               {{8}, 10, {spec::Inputs::tokens, spec::Targets::tokens}});
  const auto rows = rows_of(*gpt, at::zeros({2, 8}, at::kLong));
  CHECK(std::ranges::count(rows, "wte", &LayerRow::layer) == 1);
  CHECK(row(rows, "wte").calls == 2);
  CHECK(row(rows, "wte").gflops * 1e9 == Approx(3 * 2.0 * 16 * 16 * 10));  // of the product
}

TEST_CASE("LayerTimes: the fused cross entropy's backward pass belongs to the loss") {
  const auto model = timed_model("sequential", kConvnet, {{1, 10, 10}, 5});
  const TickingClock clock;
  train::LayerTimes times(*model, at::kCPU, clock);
  {
    at::Tensor logits;
    {
      RECORD_USER_SCOPE("forward");
      logits = model->forward(at::randn({2, 1, 10, 10}));
    }
    const at::Tensor loss = stages::fused_entropy(logits, {at::zeros({2}, at::kLong)}, {});
    RECORD_USER_SCOPE("backward");
    loss.backward();
  }
  times.end_step();
  const auto rows = times.finish();
  CHECK(row(rows, "(loss)").forward_ms > 0);
  CHECK(row(rows, "(loss)").backward_ms > 0);
}

TEST_CASE("AnomalyDetector: the fused cross entropy is reported as one operator") {
  FakeModel model;
  train::AnomalyDetector watch(model);
  watch.enter(train::LayerPass::forward);
  const at::Tensor logits = model.forward(at::ones({2, 6}));
  watch.enter(train::LayerPass::loss);
  const at::Tensor classes = at::full({2}, 7, at::kLong);  // not one of the three
  CHECK(stages::fused_entropy(logits, {classes}, {}).isnan().item<bool>());
  CHECK(watch.found() == "the loss (trainctl::cross_entropy)");
}

TEST_CASE("LayerTimes: values are means over the steps, and no callbacks remain") {
  const auto model = timed_model("sequential", kConvnet, {{1, 10, 10}, 5});
  const at::Tensor input = at::randn({2, 1, 10, 10});
  CHECK_FALSE(at::hasCallbacks());
  const auto one = rows_of(*model, input, 1);
  const auto five = rows_of(*model, input, 5);
  CHECK_FALSE(at::hasCallbacks());
  CHECK(row(one, "2").gflops == Approx(row(five, "2").gflops));
  CHECK(row(one, "2").forward_ms == Approx(row(five, "2").forward_ms));  // same clock steps
}

TEST_CASE("LayerTimes: results are unchanged while AnomalyDetector is active") {
  const auto model = timed_model("sequential", kConvnet, {{1, 10, 10}, 5});
  const at::Tensor input = at::randn({2, 1, 10, 10});
  const auto alone = rows_of(*model, input);
  train::AnomalyDetector watch(*model);
  watch.enter(train::LayerPass::forward);
  const auto watched = rows_of(*model, input);
  CHECK(watch.found().empty());
  CHECK(all_gflops(watched) == Approx(all_gflops(alone)));
  (void)model->forward(input / 0);
  CHECK_THAT(watch.found(), Contains("(div)"));
}
