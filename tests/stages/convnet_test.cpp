#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

using namespace trainctl;
using stages_test::make_model;
using stages_test::ramp;
using stages_test::shape_of;
using stages_test::tensor;

namespace {

const std::vector<std::string> kSmall{"resnet18",           "resnet_cifar",
                                      "mobilenet_v2",       "mobilenet_v3_small",
                                      "mobilenet_v3_large", "efficientnet_b0"};

/// Returns a message if values differ by more than this share of the largest one.
std::string apart(const at::Tensor& found, const at::Tensor& expected, double share) {
  return mismatch(found, expected, share_of_largest(expected, share));
}

void check_parameters(const std::vector<stage::NamedTensor>& parameters, const Json& golden) {
  REQUIRE(parameters.size() == golden.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    CHECK(parameters[i].name == golden[i][0]);
    REQUIRE(parameters[i].tensor.sizes() == at::IntArrayRef(shape_of(golden[i][1])));
    const at::Tensor values = parameters[i].tensor.detach().flatten();
    CHECK(mismatch(values.slice(0, 0, 2), tensor(golden[i][2]), share_of_largest(values, 1e-5)) ==
          "");
  }
}

/// Compares names, and means where the golden model was trained.
void check_buffers(const std::vector<stage::NamedTensor>& buffers, const Json& golden) {
  REQUIRE(buffers.size() == golden.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    INFO(buffers[i].name);
    CHECK(buffers[i].name == golden[i][0]);
    CHECK((buffers[i].tensor.scalar_type() == at::kLong) ==
          buffers[i].name.ends_with(".num_batches_tracked"));
    if (golden[i].size() == 1) continue;
    const double mean = buffers[i].tensor.to(at::kDouble).mean().item<double>();
    CHECK(mean == Approx(golden[i][1].get<double>()).epsilon(1e-4).margin(1e-5));
  }
}

void check_case(const Json& run, std::int64_t seed) {
  const std::vector<std::int64_t> shape = shape_of(run["input_shape"]);
  at::manual_seed(static_cast<std::uint64_t>(seed));
  const auto model = make_model(run["type"], run["options"].dump(), {shape, run["classes"]});
  check_parameters(model->parameters(), run["parameters"]);
  const at::NoGradGuard guard;
  if (run.contains("train_logits")) {
    at::manual_seed(static_cast<std::uint64_t>(seed + 1));
    // The statistics of two samples with few pixels amplify rounding: 2e-4 on some CPUs.
    CHECK(apart(model->forward(ramp(shape)), tensor(run["train_logits"]), 1e-3) == "");
  }
  check_buffers(model->buffers(), run["buffers"]);
  model->set_mode(stage::RunMode::evaluate);
  CHECK(apart(model->forward(ramp(shape)), tensor(run["logits"]), 1e-4) == "");
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

void turn_channels_last(const stage::Model& model) {
  const at::NoGradGuard guard;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(channels_last(parameter));
  }
}

/// Strides of dimensions of size 1 have no meaning.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("convnets: seeded weights, statistics and logits equal torchvision's") {
  const Json golden = stages_test::golden("convnets");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    check_case(run, golden["seed"].get<std::int64_t>());
  }
}

TEST_CASE("convnets: every parameter gets a gradient") {
  // Deeper and wider members of a family run the same blocks; the test above checks their weights
  // and logits.
  std::vector<std::string> types = kSmall;
  types.insert(types.end(), {"resnet50", "se_resnet50"});
  for (const std::string& type : types) {
    INFO(type);
    // Stochastic depth could drop a block, and then its gradients would be 0.
    const std::string options =
        type.starts_with("efficientnet") ? "{stochastic_depth_prob: 0, dropout: 0}" : "{}";
    const auto model = make_model(type, options, {{3, 32, 32}, 7});
    const at::Tensor logits = model->forward(at::randn({4, 3, 32, 32}));
    CHECK(logits.sizes() == at::IntArrayRef({4, 7}));
    logits.square().sum().backward();
    for (const auto& [name, parameter] : model->parameters()) {
      INFO(name);
      CHECK(parameter.grad().defined());
      CHECK(same_layout(parameter.grad(), parameter));
    }
  }
}

TEST_CASE("convnets: in-place evaluation changes neither logits, statistics nor the input") {
  for (const std::string& type : kSmall) {
    INFO(type);
    const auto model = make_model(type, "{}", {{3, 33, 33}, 3});
    model->forward(at::randn({4, 3, 33, 33}));
    model->set_mode(stage::RunMode::evaluate);
    std::vector<at::Tensor> before;
    for (const auto& [name, buffer] : model->buffers()) before.push_back(buffer.clone());
    const at::Tensor inputs = at::randn({2, 3, 33, 33});
    const at::Tensor kept = inputs.clone();
    const at::Tensor logits = model->forward(inputs).detach();
    const c10::InferenceMode guard;
    CHECK(model->forward(inputs).equal(logits));
    CHECK(inputs.equal(kept));
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(model->buffers()[i].tensor.equal(before[i]));
  }
}

TEST_CASE("convnets: channels last gives the same logits and gradients and keeps its layout") {
  for (const std::string& type : kSmall) {
    INFO(type);
    const stage::ModelContext context{{3, 40, 48}, 4};
    std::vector<at::Tensor> logits;
    std::vector<std::vector<stage::NamedTensor>> parameters;
    const at::Tensor inputs = at::randn({4, 3, 40, 48});
    for (const bool last : {false, true}) {
      at::manual_seed(3);
      const auto model = make_model(type, "{}", context);
      if (last) turn_channels_last(*model);
      at::manual_seed(4);
      logits.push_back(model->forward(last ? channels_last(inputs) : inputs));
      logits.back().square().sum().backward();
      parameters.push_back(model->parameters());
    }
    CHECK(apart(logits[1].detach(), logits[0].detach(), 1e-4) == "");
    for (std::size_t i = 0; i < parameters[0].size(); ++i) {
      INFO(parameters[0][i].name);
      const at::Tensor& parameter = parameters[1][i].tensor;
      CHECK(same_layout(parameter.grad(), parameter));
    }
    const at::Tensor first = parameters[0][0].tensor.grad();
    constexpr double kRounding = 5e-2;  // statistics of few pixels amplify it on some CPUs
    CHECK(apart(parameters[1][0].tensor.grad(), first, kRounding) == "");
  }
}

TEST_CASE("convnets: activation checkpointing changes neither gradients nor statistics") {
  for (const std::string& type : kSmall) {
    INFO(type);
    const at::Tensor inputs = at::randn({4, 3, 33, 33});
    std::vector<std::unique_ptr<stage::Model>> models;
    for (const bool checkpoints : {false, true}) {
      at::manual_seed(3);
      models.push_back(make_model(type, "{}", {{3, 33, 33}, 4}));
      if (checkpoints) CHECK(models.back()->checkpoint_activations());
      models.back()->forward(inputs).square().sum().backward();
    }
    const auto kept = models[0]->parameters();
    const auto again = models[1]->parameters();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      INFO(kept[i].name);
      CHECK(apart(again[i].tensor.grad(), kept[i].tensor.grad(), 1e-5) == "");
    }
    for (std::size_t i = 0; i < models[0]->buffers().size(); ++i) {
      INFO(models[0]->buffers()[i].name);
      CHECK(models[1]->buffers()[i].tensor.equal(models[0]->buffers()[i].tensor));
    }
  }
}

TEST_CASE(
    "efficientnet: dropout and stochastic depth are random in training and off in evaluation") {
  const auto model =
      make_model("efficientnet_b0", "{stochastic_depth_prob: 0.9}", {{3, 32, 32}, 3});
  const at::Tensor x = at::randn({4, 3, 32, 32});
  CHECK_FALSE(model->forward(x).equal(model->forward(x)));
  model->set_mode(stage::RunMode::evaluate);
  CHECK(model->forward(x).equal(model->forward(x)));
}

TEST_CASE("convnets: images may have any number of channels") {
  for (const std::string& type : kSmall) {
    INFO(type);
    const auto model = make_model(type, "{}", {{1, 28, 28}, 10});
    CHECK(model->parameters()[0].tensor.size(1) == 1);
    CHECK(model->forward(at::randn({2, 1, 28, 28})).sizes() == at::IntArrayRef({2, 10}));
  }
}

TEST_CASE("convnets: unsupported sample shapes and kinds are an error") {
  CHECK_THROWS_WITH(
      make_model("resnet18", "{}", {{3, 16, 40}, 10}),
      "model 'resnet18': the images are 16x40, but the model halves them 5 times and "
      "needs at least 17x17\nhint: resize them with a transform to that size, or choose "
      "model mlp");
  CHECK_NOTHROW(make_model("mobilenet_v2", "{}", {{3, 17, 17}, 10}));
  CHECK_NOTHROW(make_model("resnet_cifar", "{}", {{3, 3, 3}, 10}));
  CHECK_THROWS_WITH(make_model("resnet_cifar", "{}", {{3, 2, 32}, 10}), Contains("at least 3x3"));
  CHECK_THROWS_WITH(make_model("resnet_cifar", "{depth: 21}", {{3, 32, 32}, 10}),
                    Contains("depth must be 6n + 2 for an integer n, got 21"));
  for (const std::string& type : kSmall) {
    INFO(type);
    CHECK_THROWS_WITH(make_model(type, "{}", {{784}, 10}),
                      Contains("the model needs images of the shape C x H x W"));
    CHECK_THROWS_WITH(make_model(type, "{}", {{3, 32, 32}, 10, {.inputs = spec::Inputs::numbers}}),
                      Contains("the input is rows of numbers of the shape 3x32x32"));
    CHECK_THROWS_WITH(make_model(type, "{}", {{3, 32, 32}, 0}),
                      Contains("but the data has no classes or targets"));
    CHECK_THROWS_WITH(make_model(type, "{}", {{3, 0, 32}, 10}), Contains("the shape 3x0x32"));
  }
}

TEST_CASE("batch norm: one value per channel is an error in training, but not in evaluation") {
  const auto model = make_model("resnet18", "{}", {{3, 32, 32}, 10});
  CHECK_THROWS_WITH(model->forward(at::randn({1, 3, 32, 32})), Contains("loader.drop_last=true"));
  model->set_mode(stage::RunMode::evaluate);
  CHECK_NOTHROW(model->forward(at::randn({1, 3, 32, 32})));
}

TEST_CASE("batch norm: a frozen layer keeps its statistics while the others are updated") {
  const auto model = make_model("resnet_cifar", "{}", {{3, 32, 32}, 10});
  for (const auto& [name, parameter] : model->parameters()) {
    if (name.starts_with("bn1.")) parameter.set_requires_grad(false);
  }
  (void)model->forward(ramp({3, 32, 32}));
  for (const auto& [name, buffer] : model->buffers()) {
    if (!name.ends_with(".num_batches_tracked")) continue;
    INFO(name);
    CHECK(buffer.item<std::int64_t>() == (name.starts_with("bn1.") ? 0 : 1));
  }
}
