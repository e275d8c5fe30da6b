#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <utility>

using namespace trainctl;
using stages_test::check_names;
using stages_test::make_model;
using stages_test::perturb;
using stages_test::tensor;

namespace {

constexpr spec::SampleKind kText{spec::Inputs::tokens, spec::Targets::tokens};

/// Returns the input that tests/golden/make/transformer_models.py uses.
at::Tensor inputs_of(const stage::ModelContext& context) {
  std::vector<std::int64_t> shape = context.input_shape;
  shape.insert(shape.begin(), 2);
  const std::int64_t count = c10::multiply_integers(shape);
  if (context.kind.inputs == spec::Inputs::tokens)
    return at::arange(count).mul(7).remainder(context.outputs).view(shape);
  return at::arange(count, at::kDouble).sin().to(at::kFloat).view(shape);
}

/// Converts parameters and buffers to float64, in which finite differences are precise enough.
void to_double(const stage::Model& model) {
  for (const auto& [name, tensor] : model.parameters()) tensor.set_data(tensor.to(at::kDouble));
  for (const auto& [name, tensor] : model.buffers()) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(at::kDouble));
  }
}

}  // namespace

TEST_CASE("transformers and sequential: seeded weights, names and logits equal PyTorch's") {
  const Json golden = stages_test::golden("transformers");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    at::manual_seed(golden["seed"]);
    stage::ModelContext context{stages_test::shape_of(run["input_shape"]), run["classes"]};
    if (run["tokens"]) context.kind = kText;
    const auto model = make_model(run["type"], run["options"].dump(), context);
    check_names(model->parameters(), run["parameters"]);
    check_names(model->buffers(), run["buffers"]);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    const at::NoGradGuard guard;
    const at::Tensor logits = model->forward(inputs_of(context));
    const at::Tensor expected = tensor(run["logits"]);
    CHECK(mismatch(logits, expected, share_of_largest(expected, 1e-4)) == "");
  }
}

TEST_CASE("transformers: every parameter gets a nonzero gradient, also in ConvNeXt") {
  const stage::ModelContext images{{3, 32, 32}, 3};
  const stage::ModelContext text{{5}, 11, kText};
  for (const std::string type : {"vit_tiny", "convnext_tiny", "gpt"}) {
    INFO(type);
    const stage::ModelContext& context = type == "gpt" ? text : images;
    const auto model = make_model(
        type, type == "gpt" ? "{layers: 2, heads: 2, width: 8, context: 6}" : "{}", context);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    const at::Tensor logits = model->forward(inputs_of(context));
    logits.log_softmax(-1).select(-1, 0).sum().backward();
    for (const auto& [name, parameter] : model->parameters()) {
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(parameter.grad().abs().sum().item<double>() > 0);
    }
  }
}

TEST_CASE("transformers: activation checkpointing gives equal gradients, also with dropout") {
  const stage::ModelContext images{{3, 32, 32}, 3};
  const stage::ModelContext text{{5}, 11, kText};
  const auto gradients = [](stage::Model& model, const stage::ModelContext& context) {
    at::manual_seed(2);
    model.forward(inputs_of(context)).pow(2).sum().backward();
    std::vector<at::Tensor> all;
    for (const auto& [name, parameter] : model.parameters())
      all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    return all;
  };
  for (const std::string type : {"vit_tiny", "convnext_tiny", "gpt"}) {
    INFO(type);
    const stage::ModelContext& context = type == "gpt" ? text : images;
    const std::string options = type == "gpt"        ? "{layers: 2, heads: 2, width: 8, context: 6}"
                                : type == "vit_tiny" ? "{dropout: 0.1}"
                                                     : "{stochastic_depth_prob: 0.5}";
    const auto model = make_model(type, options, context);
    perturb(*model);
    const auto plain = gradients(*model, context);
    CHECK(model->checkpoint_activations());
    const auto again = gradients(*model, context);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(again[i].equal(plain[i]));
  }
}

TEST_CASE("gpt: the gradient of tied embeddings covers input tokens and predicted tokens") {
  at::manual_seed(1);
  const stage::ModelContext context{{5}, 11, kText};
  const auto model =
      make_model("gpt", "{layers: 1, heads: 2, width: 8, context: 6, dropout: 0}", context);
  perturb(*model);
  to_double(*model);
  const at::Tensor tokens = at::tensor({1, 2, 2, 3, 1}, at::kLong).unsqueeze(0);
  const auto loss = [&] { return model->forward(tokens).log_softmax(-1).select(-1, 0).sum(); };
  loss().backward();
  const auto named = model->parameters();
  const auto wte = std::ranges::find(named, "wte.weight", &stage::NamedTensor::name);
  REQUIRE(wte != named.end());
  const at::Tensor gradient = wte->tensor.grad();
  CHECK(gradient.layout() == at::kStrided);
  const at::NoGradGuard guard;
  for (const std::int64_t token : {0, 1, 2, 9}) {
    for (std::int64_t i = 0; i < wte->tensor.size(1); ++i) {
      INFO("token " << token << ", element " << i);
      constexpr double kStep = 1e-6;  // step and tolerances of torch.autograd.gradcheck
      const at::Tensor value = wte->tensor[token][i];
      const double before = value.item<double>();
      value.fill_(before + kStep);
      const double above = loss().item<double>();
      value.fill_(before - kStep);
      const double below = loss().item<double>();
      value.fill_(before);
      CHECK(gradient[token][i].item<double>() ==
            Approx((above - below) / (2 * kStep)).epsilon(1e-3).margin(1e-5));
    }
  }
}

TEST_CASE("gpt: a token's logits do not depend on later tokens") {
  const stage::ModelContext context{{6}, 11, kText};
  const auto model = make_model("gpt", "{layers: 2, heads: 2, width: 16, context: 8}", context);
  model->set_mode(stage::RunMode::evaluate);
  const at::NoGradGuard guard;
  at::Tensor tokens = inputs_of(context);
  const at::Tensor before = model->forward(tokens);
  tokens.select(1, 4).fill_(0);
  const at::Tensor after = model->forward(tokens);
  CHECK(after.narrow(1, 0, 4).equal(before.narrow(1, 0, 4)));
  CHECK_FALSE(after.narrow(1, 4, 1).equal(before.narrow(1, 4, 1)));
  CHECK_FALSE(after.narrow(1, 5, 1).equal(before.narrow(1, 5, 1)));
}

TEST_CASE("gpt: initial weights are GPT-2's, with smaller projections into the residual stream") {
  at::manual_seed(1);
  const auto model =
      make_model("gpt", "{layers: 8, heads: 2, width: 64, context: 32}", {{6}, 100, kText});
  for (const auto& [name, parameter] : model->parameters()) {
    if (parameter.dim() < 2) continue;
    INFO(name);
    const double expected = name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
    CHECK(parameter.std().item<double>() == Approx(expected).epsilon(0.1));
    CHECK(std::abs(parameter.mean().item<double>()) < expected / 5);
  }
}

TEST_CASE("transformers: dropout is random in training and off in evaluation") {
  const stage::ModelContext images{{3, 8, 8}, 3};
  const stage::ModelContext text{{5}, 11, kText};
  const auto differs = [](const std::string& type, const std::string& options,
                          const stage::ModelContext& context) {
    const auto model = make_model(type, options, context);
    perturb(*model);
    const at::NoGradGuard guard;
    const at::Tensor x = inputs_of(context);
    const bool in_training = !model->forward(x).equal(model->forward(x));
    model->set_mode(stage::RunMode::evaluate);
    CHECK(model->forward(x).equal(model->forward(x)));
    return in_training;
  };
  CHECK_FALSE(differs("vit_tiny", "{patch_size: 4}", images));
  CHECK(differs("vit_tiny", "{patch_size: 4, dropout: 0.1}", images));
  CHECK(differs("vit_tiny", "{patch_size: 4, attention_dropout: 0.1}", images));
  CHECK(differs("gpt", "{layers: 1, heads: 1, width: 8}", text));
  CHECK_FALSE(differs("gpt", "{layers: 1, heads: 1, width: 8, dropout: 0}", text));
  CHECK(differs("convnext_tiny", "{layer_scale: 1, stochastic_depth_prob: 0.9}", {{3, 32, 32}, 3}));
}

TEST_CASE("stochastic_depth: drops whole samples and scales the others") {
  at::manual_seed(3);
  const at::Tensor x = at::ones({400, 2, 3});
  const at::Tensor out = stages::stochastic_depth(x, 0.25, /*training=*/true);
  const at::Tensor rows = out.flatten(1);
  CHECK(rows.amin(1).equal(rows.amax(1)));
  const at::Tensor kept = rows.select(1, 0);
  CHECK((kept.eq(0).logical_or(kept.eq(at::ones({}).div(0.75)))).all().item<bool>());
  CHECK(kept.eq(0).sum().item<double>() == Approx(100).margin(35));
  CHECK(stages::stochastic_depth(x, 0.25, /*training=*/false).is_same(x));
  CHECK(stages::stochastic_depth(x, 0, /*training=*/true).is_same(x));
  CHECK(stages::stochastic_depth(x, 1, /*training=*/true).eq(0).all().item<bool>());
}

TEST_CASE("transformers: unsupported sample shapes and options are an error") {
  CHECK_THROWS_WITH(
      make_model("vit_tiny", "{}", {{3, 30, 32}, 10}),
      "model 'vit_tiny': the images are 30x32, which patches of 16x16 do not cover "
      "exactly\nhint: resize them with a transform to a multiple of 16, such as 32x32");
  CHECK_NOTHROW(make_model("vit_tiny", "{patch_size: 2}", {{1, 4, 6}, 10}));
  CHECK_THROWS_WITH(make_model("vit_tiny", "{}", {{768}, 10}),
                    Contains("needs images of the shape C x H x W"));
  CHECK_THROWS_WITH(make_model("convnext_tiny", "{}", {{3, 28, 28}, 10}),
                    Contains("the images are 28x28, but convnext_tiny needs at least 32x32"));
  CHECK_THROWS_WITH(make_model("convnext_tiny", "{}", {{}, 10}),
                    Contains("the input has no shape"));
  CHECK_THROWS_WITH(make_model("gpt", "{context: 8, layers: 1}", {{9}, 11, kText}),
                    Contains("a sample has 9 tokens, but the model's longest sequence is 8"));
  CHECK_THROWS_WITH(make_model("gpt", "{heads: 5, layers: 1}", {{9}, 11, kText}),
                    Contains("width must be a multiple of heads (5), got 768"));
  CHECK_THROWS_WITH(make_model("gpt", "{layers: 1}", {{9}, 0, kText}),
                    Contains("'vocab_size: 50257'"));
}
