#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

using namespace trainctl;

namespace {

constexpr spec::SampleKind kTokens{spec::Inputs::tokens, spec::Targets::tokens};

std::unique_ptr<stage::Model> make_sequential(const std::string& layers,
                                              const stage::ModelContext& context) {
  return stages::builtin_catalog().models.build(
      stages_test::stage("model", "sequential", "{layers: " + layers + "}"), context);
}

std::vector<std::string> names(const std::vector<stage::NamedTensor>& tensors) {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors) all.push_back(name);
  return all;
}

}  // namespace

TEST_CASE("sequential: names of parameters and buffers equal those of nn.Sequential") {
  const auto model = make_sequential(
      "[{type: conv2d, out_channels: 4, kernel_size: 3}, batch_norm2d, relu, flatten, linear]",
      {{1, 6, 6}, 3});
  CHECK(names(model->parameters()) ==
        std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"});
  CHECK(names(model->buffers()) ==
        std::vector<std::string>{"1.running_mean", "1.running_var", "1.num_batches_tracked"});
  CHECK(model->forward(at::randn({2, 1, 6, 6})).sizes() == at::IntArrayRef({2, 3}));
}

TEST_CASE("sequential: every parameter gets a gradient, also in a residual layer") {
  const auto model = make_sequential(
      "[{type: residual, layers: [{type: conv2d, out_channels: 4, kernel_size: 1}, tanh, "
      "{type: residual, layers: [batch_norm2d]}], shortcut: [{type: conv2d, out_channels: 4, "
      "kernel_size: 1}]}, flatten, linear]",
      {{2, 3, 3}, 5});
  CHECK(names(model->parameters())[2] == "0.layers.2.layers.0.weight");
  model->forward(at::randn({4, 2, 3, 3})).pow(2).sum().backward();
  for (const auto& [name, parameter] : model->parameters()) {
    INFO(name);
    CHECK(parameter.grad().defined());
  }
}

TEST_CASE("sequential: evaluation turns dropout off, also in a residual layer") {
  const auto model =
      make_sequential("[{type: residual, layers: [dropout]}, flatten, linear]", {{2, 8, 8}, 3});
  const at::Tensor x = at::randn({2, 2, 8, 8});
  CHECK_FALSE(model->forward(x).equal(model->forward(x)));
  model->set_mode(stage::RunMode::evaluate);
  CHECK(model->forward(x).equal(model->forward(x)));
}

TEST_CASE("sequential: the embedding of texts with classes covers their vocabulary") {
  const auto model = make_sequential("[{type: embedding, embedding_dim: 4}, flatten, linear]",
                                     {{5}, 3, {spec::Inputs::tokens, spec::Targets::classes, 256}});
  CHECK(model->parameters()[0].tensor.sizes() == at::IntArrayRef({256, 4}));
  CHECK(model->forward(at::randint(256, {2, 5}, at::kLong)).sizes() == at::IntArrayRef({2, 3}));
}

TEST_CASE("sequential: an embedding with a linear layer gives logits for each token") {
  const auto model =
      make_sequential("[{type: embedding, embedding_dim: 4}, linear]", {{7}, 9, kTokens});
  CHECK(model->forward(at::randint(9, {2, 7}, at::kLong)).sizes() == at::IntArrayRef({2, 7, 9}));
}

TEST_CASE("sequential: log_softmax gives log-probabilities over the classes") {
  const auto model = make_sequential("[flatten, log_softmax]", {{1, 1, 4}, 4});
  const at::Tensor logits = at::randn({3, 1, 1, 4});
  CHECK(model->forward(logits).equal(logits.flatten(1).log_softmax(1)));
}

TEST_CASE("sequential: a layer that does not fit its input is an error with its position") {
  CHECK_THROWS_WITH(
      make_sequential("[relu, {type: max_pool2d, kernel_size: 9}, flatten, linear]",
                      {{3, 8, 8}, 3}),
      Contains("model 'sequential': layer 1 (max_pool2d) cannot take an input of shape 3x8x8: a "
               "window of 9x9 is larger "
               "than its input"));
  CHECK_THROWS_WITH(make_sequential("[flatten, linear]", {{3, 0, 8}, 3}),
                    Contains("the shape 3x0x8"));
}
