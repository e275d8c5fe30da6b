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
  stage::LossValue loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                        double derivative) override {
    factor = derivative;
    return criterion->forward(outputs, batch.targets);
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
