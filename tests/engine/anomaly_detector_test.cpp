#include "train/debug/anomaly_detector.hpp"

#include "stages/builtin.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"
#include "train/fake_run.hpp"

#include <limits>

using namespace trainctl;
using train::AnomalyDetector;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kLayers =
    "{layers: [flatten, {type: linear, out_features: 8}, relu, {type: residual, layers: [{type: "
    "linear, "
    "out_features: 8}]}, {type: linear}]}";

std::unique_ptr<stage::Model> build(const std::string& type, const std::string& options,
                                    const stage::ModelContext& context) {
  at::manual_seed(1);
  return stages::builtin_catalog().models.build(stage_from("model", type, options), context);
}

at::Tensor parameter(const stage::Model& model, const std::string& name) {
  for (const auto& [known, tensor] : model.parameters()) {
    if (known == name) return tensor;
  }
  FAIL("no parameter " << name);
  return {};
}

/// Returns what the detector finds in one forward and backward pass.
std::string found_in(stage::Model& model, const at::Tensor& input) {
  AnomalyDetector watch(model);
  watch.enter(AnomalyDetector::Pass::forward);
  const at::Tensor output = model.forward(input);
  watch.enter(AnomalyDetector::Pass::loss);
  const at::Tensor loss = output.square().mean();
  watch.enter(AnomalyDetector::Pass::backward);
  loss.backward();
  watch.enter(AnomalyDetector::Pass::none);
  return watch.found();
}

void corrupt(const at::Tensor& tensor, double value) {
  const at::NoGradGuard guard;
  tensor.view(-1)[0].fill_(value);
}

}  // namespace

TEST_CASE("layer_of: the layer of a parameter is its name up to the last dot") {
  CHECK(train::layer_of("layer3.1.conv2.weight") == "layer3.1.conv2");
  CHECK(train::layer_of("weight") == "weight");
}

TEST_CASE("AnomalyDetector: finite values are not reported") {
  const auto model = build("sequential", kLayers, {{1, 2, 3}, 4});
  CHECK(found_in(*model, at::randn({2, 1, 2, 3})).empty());
}

TEST_CASE(
    "AnomalyDetector: the first layer with a non-finite output is reported with its operator") {
  const auto model = build("sequential", kLayers, {{1, 2, 3}, 4});
  for (const auto& [name, tensor] : model->parameters()) {
    if (!name.ends_with("weight")) continue;
    const at::Tensor before = tensor.detach().clone();
    {
      const at::NoGradGuard guard;
      tensor.fill_(3e38);  // finite, but products overflow
    }
    INFO(name);
    CHECK(found_in(*model, at::full({2, 1, 2, 3}, 1000.0)) ==
          "the forward pass of layer '" + train::layer_of(name) + "' (linear)");
    const at::NoGradGuard guard;
    tensor.copy_(before);
  }
}

TEST_CASE("AnomalyDetector: the report names the source, a parameter or the input") {
  const auto model = build("mlp", "{hidden: [8, 8]}", {{1, 2, 3}, 4});
  CHECK_THAT(found_in(*model, at::full({2, 1, 2, 3}, std::nan(""))),
             Contains("whose input was not finite"));
  const std::string name = model->parameters()[2].name;
  corrupt(model->parameters()[2].tensor, std::nan(""));
  CHECK_THAT(found_in(*model, at::ones({2, 1, 2, 3})),
             StartsWith("the forward pass of layer '" + train::layer_of(name) + "'") &&
                 EndsWith("whose '" + name + "' was not finite"));
}

TEST_CASE("AnomalyDetector: layers of ResNet and GPT blocks are reported with their full path") {
  const auto resnet = build("resnet18", "{}", {{3, 32, 32}, 10});
  corrupt(parameter(*resnet, "layer3.1.conv2.weight"), kInfinity);
  CHECK_THAT(found_in(*resnet, at::randn({2, 3, 32, 32})),
             StartsWith("the forward pass of layer 'layer3.1.conv2' (conv2d)"));

  const auto gpt = build("gpt", "{layers: 2, heads: 2, width: 16, context: 8}",
                         {{8}, 10, {spec::Inputs::tokens, spec::Targets::tokens}});
  const std::string last = gpt->parameters().back().name;
  corrupt(gpt->parameters().back().tensor, kInfinity);
  CHECK_THAT(found_in(*gpt, at::zeros({2, 8}, at::kLong)), Contains(train::layer_of(last)));
}

TEST_CASE("AnomalyDetector: a layer or loss with a non-finite gradient is reported") {
  const auto model = build("sequential", kLayers, {{1, 2, 3}, 4});
  AnomalyDetector watch(*model);
  watch.enter(AnomalyDetector::Pass::forward);
  const at::Tensor output = model->forward(at::ones({2, 1, 2, 3}));
  watch.enter(AnomalyDetector::Pass::loss);
  const at::Tensor loss = (output * 0).sum().sqrt();  // finite, but its derivative is not
  watch.enter(AnomalyDetector::Pass::backward);
  loss.backward();
  CHECK(watch.found() == "the backward pass of the loss (SqrtBackward0)");

  watch.enter(AnomalyDetector::Pass::forward);
  const at::Tensor again = model->forward(at::ones({2, 1, 2, 3}));
  watch.enter(AnomalyDetector::Pass::backward);
  again.backward(at::full_like(again, 3e38) * 1e5);
  CHECK_THAT(watch.found(), Contains("layer '"));
}

TEST_CASE("AnomalyDetector: a layer recomputed in the backward pass is reported, too") {
  const auto model = build("resnet18", "{}", {{3, 32, 32}, 10});
  REQUIRE(model->checkpoint_activations());
  CHECK(found_in(*model, at::randn({2, 3, 32, 32})).empty());
  corrupt(parameter(*model, "layer2.0.conv1.weight"), kInfinity);
  CHECK_THAT(found_in(*model, at::randn({2, 3, 32, 32})), Contains("'layer2.0.conv1' (conv2d)"));
}

TEST_CASE("AnomalyDetector: masked and uninitialized values are not reported") {
  FakeModel model;
  AnomalyDetector watch(model);
  watch.enter(AnomalyDetector::Pass::forward);
  const at::Tensor output = model.forward(at::ones({2, 6}));
  const at::Tensor masked = output.masked_fill(output < 1e9, -kInfinity);
  const at::Tensor empty = at::empty_like(output);
  CHECK(watch.found().empty());
  watch.enter(AnomalyDetector::Pass::none);
  CHECK(at::isinf(output.detach() / 0).any().item<bool>());
  CHECK(watch.found().empty());
}

TEST_CASE("detect_anomaly: the error names layer and step before any weight changes") {
  FakeRun run;
  run.options.detect_anomaly = true;
  run.options.max_epochs = 3;
  int batches = 0;
  run.loss.after = [&](const at::Tensor& loss, int) {
    if (++batches == 3) corrupt(run.model.bias, kInfinity);  // the next forward pass uses it
    return loss;
  };
  std::string message;
  try {
    run.run();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::diverged);
    message = error.what();
  }
  CHECK_THAT(message, Contains("the training loss is not finite at step 3 of epoch 1") &&
                          Contains("the forward pass of layer 'bias' (linear)") &&
                          !Contains("detect_anomaly=true"));
  CHECK(run.optimizer.steps == 3);
}

TEST_CASE("detect_anomaly: the weights equal those of a run without it") {
  FakeRun plain;
  plain.run();
  FakeRun watched;
  watched.options.detect_anomaly = true;
  watched.run();
  CHECK(watched.model.weight.equal(plain.model.weight));
}
