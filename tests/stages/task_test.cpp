#include "stage/task.hpp"

#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <string>

using namespace trainctl;

namespace {

/// Returns its input, one row of numbers for each token of a vocabulary, or a fixed tensor.
struct FakeNetwork final : stage::Model {
  at::Tensor outputs;  // undefined: the flat input
  at::Tensor seen;
  at::Tensor forward(const at::Tensor& inputs) override {
    seen = inputs;
    return outputs.defined() ? outputs : inputs.flatten(1);
  }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override { return {}; }
  void set_mode(stage::RunMode) override {}
  void to(at::Device) override {}
};

struct FakeTools final : stage::StepTools {
  FakeNetwork model;
  std::unique_ptr<stage::Loss> criterion;
  stage::RunMode run_mode = stage::RunMode::train;
  stage::BatchSamples rows;
  double factor = 0;

  explicit FakeTools(const std::string& loss, std::int64_t outputs)
      : criterion(
            stages::builtin_catalog().losses.build(stages_test::stage("loss", loss), {outputs})) {}
  [[nodiscard]] stage::RunMode mode() const override { return run_mode; }
  at::Tensor forward(const at::Tensor& inputs) override { return model.forward(inputs); }
  at::Tensor forward_frozen(stage::Model& other, const at::Tensor& inputs) override {
    return other.forward(inputs);
  }
  at::Tensor forward_trained(stage::Model& other, const at::Tensor& inputs) override {
    return other.forward(inputs);
  }
  stage::LossValue loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                        double derivative) override {
    factor = derivative;
    return criterion->forward(outputs, batch.targets);
  }
  void average(std::vector<at::Tensor>& gradients) override {
    for (const at::Tensor& gradient : gradients) REQUIRE(gradient.defined());
  }
  stage::BatchSamples samples(const device::DeviceBatch&) override { return rows; }
};

std::unique_ptr<stage::Task> task(const std::string& type, const std::string& options,
                                  const stage::TaskContext& context = {}) {
  return stages::builtin_catalog().tasks.build(stages_test::stage("task", type, options), context);
}

device::DeviceBatch batch_of(const at::Tensor& inputs, const at::Tensor& targets) {
  device::DeviceBatch batch;
  batch.inputs = inputs;
  batch.targets = targets;
  batch.valid = batch.global_valid = inputs.size(0);
  return batch;
}

/// A batch of 2 samples with 20 tokens below 50.
device::DeviceBatch sentences() {
  const at::Tensor tokens = torch::arange(40, torch::kLong).view({2, 20}) + 5;
  return batch_of(tokens, tokens);
}

stage::TaskContext masked_context() {
  return {{{20}, 51, {spec::Inputs::tokens, spec::Targets::tokens}}, at::kCPU, /*seed=*/3};
}

/// Returns the input that the model gets for samples 4 and 9.
at::Tensor masked(stage::Task& task, FakeTools& tools, std::int64_t epoch) {
  tools.rows = {epoch, {4, 9}};
  tools.model.outputs = torch::arange(2 * 20 * 51, torch::kFloat).view({2, 20, 51});
  task.step(sentences(), tools);
  return tools.model.seen;
}

}  // namespace

TEST_CASE("segmentation: the model gets the image, and the loss the classes of the mask") {
  const at::Tensor mask = torch::tensor({0, 1, 255, 2, 1, 0}, torch::kFloat).view({1, 1, 2, 3});
  const at::Tensor image = torch::rand({1, 3, 2, 3});
  FakeTools tools("cross_entropy", 3);
  tools.model.outputs = torch::rand({1, 3, 2, 3});
  const auto segmentation = task("segmentation", "{}");
  const device::DeviceBatch batch =
      batch_of(torch::cat({image, mask.div(255)}, 1), torch::zeros({1}, torch::kLong));
  const at::Tensor expected = mask.squeeze(1).to(torch::kLong);
  tools.criterion = stages::builtin_catalog().losses.build(
      stages_test::stage("loss", "cross_entropy", "{ignore_index: 255}"), {3});
  const stage::TaskResult result = segmentation->step(batch, tools);
  CHECK(tools.model.seen.equal(image));
  CHECK(result.batch.targets.equal(expected));
  CHECK(result.loss.weight.item<float>() == 5);
  CHECK(segmentation->masks(result).equal(at::stack({result.outputs.argmax(1), expected}, 1)));
  tools.model.outputs = torch::rand({1, 3, 2, 2});
  CHECK_THROWS_WITH(segmentation->step(batch, tools), Contains("has the shape [1, 3, 2, 2]"));
}

TEST_CASE("reconstruction: the targets are the values of the input") {
  FakeTools tools("mse", 12);
  const at::Tensor images = torch::arange(24, torch::kFloat).view({2, 3, 2, 2});
  tools.model.outputs = images.flatten(1) + 2;
  const auto result =
      task("reconstruction", "{}")->step(batch_of(images, torch::zeros({2}, torch::kLong)), tools);
  CHECK(result.batch.targets.equal(images.flatten(1)));
  CHECK(result.loss.value.item<float>() == 4);
  tools.model.outputs = images + 2;  // as those of an autoencoder
  const auto of_images =
      task("reconstruction", "{}")->step(batch_of(images, torch::zeros({2}, torch::kLong)), tools);
  CHECK(of_images.outputs.equal(result.outputs));
}

TEST_CASE("masked_language_modeling: hidden tokens depend on seed, epoch and sample only") {
  const auto one = task("masked_language_modeling", "{}", masked_context());
  const auto other = task("masked_language_modeling", "{}", masked_context());
  FakeTools tools("cross_entropy", 51);
  const at::Tensor first = masked(*one, tools, 0);
  CHECK(masked(*other, tools, 0).equal(first));
  CHECK_FALSE(masked(*one, tools, 1).equal(first));
  // A sample is masked the same in any batch.
  tools.rows = {0, {9, 4}};
  device::DeviceBatch swapped = sentences();
  swapped.inputs = swapped.inputs.flip(0);
  one->step(swapped, tools);
  CHECK(tools.model.seen.flip(0).equal(first));
  tools.run_mode = stage::RunMode::evaluate;
  CHECK(masked(*one, tools, 7).equal(masked(*one, tools, 8)));
}

TEST_CASE("masked_language_modeling: the loss compares the hidden tokens") {
  FakeTools tools("cross_entropy", 51);
  const auto masking = task("masked_language_modeling", "{}", masked_context());
  tools.rows = {0, {4, 9}};
  // The outputs encode row and place.
  tools.model.outputs = torch::arange(40, torch::kFloat).view({2, 20, 1}).expand({2, 20, 51});
  const device::DeviceBatch batch = sentences();
  const auto result = masking->step(batch, tools);
  CHECK(result.outputs.sizes() == at::IntArrayRef({2, 3, 51}));  // 15 % of 20 tokens
  CHECK(result.batch.targets.sizes() == at::IntArrayRef({2, 3}));
  const at::Tensor places = result.outputs.select(2, 0).to(torch::kLong);
  CHECK(batch.inputs.flatten()
            .index_select(0, places.flatten())
            .view({2, 3})
            .equal(result.batch.targets));
  // Places that are not hidden keep their token.
  const at::Tensor changed = tools.model.seen.ne(batch.inputs).flatten().nonzero().flatten();
  const at::Tensor hidden = places.flatten();
  for (std::int64_t i = 0; i < changed.size(0); ++i)
    CHECK(hidden.eq(changed[i]).any().item<bool>());
}

TEST_CASE("masked_language_modeling: 80 % of the hidden tokens are masks, 10 % random, 10 % kept") {
  constexpr std::int64_t kSamples = 500;
  FakeTools tools("cross_entropy", 51);
  const auto masking = task("masked_language_modeling", "{probability: 0.5}", masked_context());
  const at::Tensor tokens = torch::full({kSamples, 20}, 7, torch::kLong);
  for (std::int64_t i = 0; i < kSamples; ++i) tools.rows.indices.push_back(i);
  tools.model.outputs = torch::zeros({kSamples, 20, 51});
  masking->step(batch_of(tokens, tokens), tools);
  const auto share = [&](const at::Tensor& which) {
    return which.sum().item<double>() / (kSamples * 10);
  };
  const at::Tensor& seen = tools.model.seen;
  CHECK(share(seen.eq(50)) == Approx(0.8).margin(0.02));
  CHECK(share(seen.ne(50).logical_and(seen.ne(7))) == Approx(0.098).margin(0.02));
  CHECK(seen.lt(51).all().item<bool>());
}

TEST_CASE(
    "masked_language_modeling: a mask of the vocabulary is used, and no random token is new") {
  stage::TaskContext context = masked_context();
  context.model.outputs = 50;
  const auto masking =
      task("masked_language_modeling", "{mask_token: 0, probability: 0.9}", context);
  FakeTools tools("cross_entropy", 50);
  tools.rows = {0, {1, 2}};
  tools.model.outputs = torch::zeros({2, 20, 50});
  masking->step(sentences(), tools);
  CHECK(tools.model.seen.eq(0).any().item<bool>());
  CHECK(tools.model.seen.lt(50).all().item<bool>());
}

TEST_CASE("distillation: the loss is that of Hinton et al. 2015") {
  const at::Tensor taught = torch::tensor({{2.0F, 0.5F, -1.0F}, {0.0F, 1.0F, 3.0F}});
  stage::TaskContext context;
  context.build_frozen = [&](const config::Stage& teacher, const std::filesystem::path& weights) {
    CHECK(teacher.type == "linear");
    CHECK(weights.filename() == "t.safetensors");
    auto model = std::make_unique<FakeNetwork>();
    model->outputs = taught;
    return model;
  };
  const auto distilling =
      task("distillation", "{teacher: linear, weights: t.safetensors, temperature: 3, alpha: 0.4}",
           context);
  FakeTools tools("cross_entropy", 3);
  const at::Tensor logits = torch::tensor({{1.0F, 0.0F, 0.5F}, {-1.0F, 2.0F, 0.0F}});
  tools.model.outputs = logits;
  const at::Tensor classes = torch::tensor({0, 2}, torch::kLong);
  const device::DeviceBatch batch = batch_of(torch::zeros({2, 1}), classes);
  const auto trained = distilling->step(batch, tools);
  const at::Tensor p = at::softmax(taught / 3, 1);
  const at::Tensor divergence = (p * (p.log() - at::log_softmax(logits / 3, 1))).sum(1).mean();
  const double entropy = at::cross_entropy_loss(logits, classes).item<double>();
  const double expected = 0.4 * 9 * divergence.item<double>() + 0.6 * entropy;
  CHECK(trained.loss.value.item<double>() == Approx(expected).epsilon(1e-5));
  CHECK(tools.factor == Approx(0.6));
  tools.run_mode = stage::RunMode::evaluate;
  CHECK(distilling->step(batch, tools).loss.value.item<double>() == Approx(entropy));
  stage::TaskContext without_teacher;
  without_teacher.trains = false;
  const auto evaluating = task("distillation", "{teacher: linear, weights: gone}", without_teacher);
  CHECK(evaluating->step(batch, tools).loss.value.item<double>() == Approx(entropy));
}

namespace {

/// A model with a parameter that its outputs do not depend on.
struct WithUnused final : stage::Model {
  std::unique_ptr<stage::Model> used;
  at::Tensor unused = torch::ones({3}).requires_grad_();

  explicit WithUnused(std::unique_ptr<stage::Model> model) : used(std::move(model)) {}
  at::Tensor forward(const at::Tensor& inputs) override { return used->forward(inputs); }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    std::vector<stage::NamedTensor> all = used->parameters();
    all.push_back({"unused", unused});
    return all;
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override { return used->buffers(); }
  void set_mode(stage::RunMode mode) override { used->set_mode(mode); }
  void to(at::Device device) override { used->to(device); }
};

/// A discriminator that scores images of 4 pixels: weight * x.
struct LinearGan {
  at::Tensor weight;
  std::unique_ptr<stage::Task> task;

  explicit LinearGan(const std::string& options) {
    stage::TaskContext context{{{2}, 4, {}, {1, 2, 2}}, at::kCPU, /*seed=*/3};
    context.build_trained = [&](const config::Stage& model, const stage::ModelContext& images,
                                const config::Stage& optimizer) {
      CHECK(images.input_shape == std::vector<std::int64_t>{1, 2, 2});
      const stage::Catalog all = stages::builtin_catalog();
      stage::TrainedModel built{std::make_unique<WithUnused>(all.models.build(model, images)),
                                nullptr};
      weight = built.model->parameters()[0].tensor;
      const at::NoGradGuard guard;
      weight.copy_(torch::tensor({{0.3F, -0.2F, 0.5F, 0.1F}}));
      built.optimizer = all.optimizers.build(optimizer, {built.model->parameters()});
      return built;
    };
    task = ::task("gan",
                  "{discriminator: {type: linear, bias: false}, optimizer: {type: sgd, lr: 0.1}, "
                  "latent_size: 2, " +
                      options + "}",
                  context);
  }
};

const std::vector<float> kReal{1, 2, 0, -1, 0.5, 0, 1, 1};
const std::vector<float> kMade{0.2F, 1, -1, 0, 2, -1, 0.5F, 0.3F};

/// Returns the context of a task gan whose discriminator's weights are those of the golden script.
stage::TaskContext golden_context(const Json& golden) {
  stage::TaskContext context{
      {{2}, 28 * 28, {}, stages_test::shape_of(golden["image"])}, at::kCPU, /*seed=*/3};
  context.build_trained = [seed = golden["seed"].get<std::uint64_t>()](
                              const config::Stage& model, const stage::ModelContext& images,
                              const config::Stage& optimizer) {
    const stage::Catalog all = stages::builtin_catalog();
    at::manual_seed(seed);
    stage::TrainedModel built{all.models.build(model, images), nullptr};
    stages_test::perturb(*built.model);
    built.optimizer = all.optimizers.build(optimizer, {built.model->parameters()});
    return built;
  };
  return context;
}

void check_close(const at::Tensor& found, const Json& expected) {
  CHECK(at::allclose(found.detach().flatten(), stages_test::tensor(expected), 1e-4, 1e-6));
}

/// Trains as many steps as the case has, and compares each with PyTorch's.
void check_gan(stage::Task& gan, const Json& expected, const at::Tensor& numbers) {
  double step = 0;
  for (const Json& one : expected["steps"]) {
    FakeTools tools("mse", 4);
    tools.rows = {0, {4, 9}};
    const at::Tensor scale = torch::tensor({{0.5F}, {-0.25F}}).requires_grad_();
    tools.model.outputs = numbers.flatten(1) * scale + 0.1 * step++;
    const auto result =
        gan.step(batch_of((numbers * step).cos(), torch::zeros({2}, torch::kLong)), tools);
    result.loss.value.backward();
    check_close(result.loss.value, Json::array({one["loss"]}));
    check_close(scale.grad(), one["gradient"]);
  }
  const stage::Model& discriminator = *gan.trained()->model;
  for (const auto& [name, tensor] : discriminator.parameters()) {
    INFO(name);
    CHECK_FALSE(tensor.grad().defined());
    check_close(tensor, expected["weights"][name]);
  }
  for (const auto& [name, tensor] : discriminator.buffers())
    check_close(tensor.to(at::kFloat), Json(expected["weights"][name]));
}

}  // namespace

TEST_CASE("gan: losses, penalties, gradients and updates equal PyTorch's") {
  const Json golden = stages_test::golden("gan");
  for (const Json& expected : golden["cases"]) {
    INFO(expected["loss"] << ", r1_weight " << expected["r1_weight"]);
    Json options = {{"loss", expected["loss"]}, {"r1_weight", expected["r1_weight"]}};
    options["discriminator"] = golden["options"];
    options["discriminator"]["type"] = "dcgan_discriminator";
    options["optimizer"] = {{"type", "sgd"}, {"lr", 0.01}, {"momentum", 0.9}};
    const auto gan = task("gan", options.dump(), golden_context(golden));
    check_gan(*gan, expected, stages_test::ramp(stages_test::shape_of(golden["image"])));
  }
}

TEST_CASE("gan: random numbers depend on seed, epoch and sample only, and have deviation 1") {
  LinearGan gan("r1_weight: 0");
  FakeTools tools("mse", 4);
  tools.model.outputs = torch::zeros({2, 4}).requires_grad_();
  const auto seen = [&](stage::RunMode mode, std::int64_t epoch, std::vector<std::int64_t> rows) {
    tools.run_mode = mode;
    tools.rows = {epoch, std::move(rows)};
    gan.task->step(batch_of(torch::zeros({2, 1, 2, 2}), torch::zeros({2}, torch::kLong)), tools);
    return tools.model.seen.clone();
  };
  const auto train = stage::RunMode::train, evaluate = stage::RunMode::evaluate;
  const at::Tensor first = seen(train, 0, {4, 9});
  CHECK(seen(train, 0, {9, 4}).flip(0).equal(first));
  CHECK_FALSE(seen(train, 1, {4, 9}).equal(first));
  CHECK_FALSE(seen(evaluate, 0, {4, 9}).equal(first));
  CHECK(seen(evaluate, 0, {4, 9}).equal(seen(evaluate, 5, {4, 9})));
  std::vector<at::Tensor> many;
  for (std::int64_t i = 0; i < 1000; ++i) many.push_back(seen(train, 0, {2 * i, 2 * i + 1}));
  CHECK(at::cat(many).mean().item<double>() == Approx(0).margin(0.06));
  CHECK(at::cat(many).std().item<double>() == Approx(1).margin(0.05));
}

TEST_CASE("gan: an evaluation leaves the discriminator unchanged and makes the same samples") {
  LinearGan gan("r1_weight: 0");
  const at::Tensor before = gan.weight.detach().clone();
  FakeTools tools("mse", 4);
  tools.run_mode = stage::RunMode::evaluate;
  tools.rows = {0, {4, 9}};
  tools.model.outputs = torch::tensor(kMade).view({2, 4});
  const auto result = gan.task->step(
      batch_of(torch::tensor(kReal).view({2, 1, 2, 2}), torch::zeros({2}, torch::kLong)), tools);
  CHECK(gan.weight.equal(before));
  const at::Tensor scores = tools.model.outputs.mm(before.t());
  CHECK(result.loss.value.item<double>() ==
        Approx(-at::log_sigmoid(scores).mean().item<double>()).epsilon(1e-5));
  CHECK(gan.task->trained() != nullptr);
  tools.model.outputs = torch::zeros({64, 4});
  CHECK(gan.task->samples(tools).sizes() == at::IntArrayRef({64, 1, 2, 2}));
  tools.model.outputs = torch::zeros({64, 5});
  CHECK_THROWS_WITH(gan.task->samples(tools),
                    Contains("one output for each value of an image, 4, but it has 5"));
}
