#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kVocabulary = 11;
constexpr const char* kOptions = "{layers: 1, heads: 1, width: 8, context: 6, dropout: 0}";

using Weights = std::map<std::string, at::Tensor>;

/// Uses float64, in which the order of a sum hardly matters.
std::unique_ptr<stage::Model> make_gpt() {
  at::manual_seed(4);
  const stage::ModelContext context{
      {5}, kVocabulary, {spec::Inputs::tokens, spec::Targets::tokens}};
  auto model =
      stages::builtin_catalog().models.build(stages_test::stage("model", "gpt", kOptions), context);
  const at::NoGradGuard guard;
  for (const auto& [name, parameter] : model->parameters())
    parameter.set_data(at::randn(parameter.sizes(), at::kDouble).mul(0.3));
  return model;
}

Weights copies_of(const stage::Model& model) {
  Weights copies;
  for (const auto& [name, parameter] : model.parameters())
    copies[name] = parameter.detach().clone().requires_grad_();
  return copies;
}

at::Tensor normed(const at::Tensor& x, const Weights& w, const std::string& name) {
  return at::layer_norm(x, {kWidth}, w.at(name + ".weight"), w.at(name + ".bias"), 1e-5);
}

at::Tensor projected(const at::Tensor& x, const Weights& w, const std::string& name) {
  const at::Tensor& weight = w.at(name + ".weight");
  return at::linear(x, weight.t(), w.at(name + ".bias"));
}

/// Returns the logits of the same network with separate tensors: `wte` embeds the tokens and
/// `head` predicts them.
at::Tensor untied_logits(const at::Tensor& tokens, const Weights& w, const at::Tensor& head) {
  at::Tensor x =
      at::embedding(w.at("wte.weight"), tokens) + w.at("wpe.weight").narrow(0, 0, tokens.size(1));
  const auto qkv = projected(normed(x, w, "h.0.ln_1"), w, "h.0.attn.c_attn").chunk(3, -1);
  const at::Tensor attended = at::scaled_dot_product_attention(
      qkv[0], qkv[1], qkv[2], /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true);
  x = x + projected(attended, w, "h.0.attn.c_proj");
  const at::Tensor inner = projected(normed(x, w, "h.0.ln_2"), w, "h.0.mlp.c_fc");
  x = x + projected(at::gelu(inner, "tanh"), w, "h.0.mlp.c_proj");
  return at::linear(normed(x, w, "ln_f"), head);
}

at::Tensor loss_of(const at::Tensor& logits) { return logits.log_softmax(-1).select(-1, 2).mean(); }

/// Returns two micro-batches with tokens that repeat in a row, between rows and between both.
std::vector<at::Tensor> micro_batches() {
  return {at::tensor({1, 2, 2, 3, 1, 7, 1, 1, 1, 1}, at::kLong).view({2, 5}),
          at::tensor({2, 2, 9, 0, 1, 10, 4, 4, 4, 3}, at::kLong).view({2, 5})};
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("gpt: tied embeddings get the sum of both gradients, added over micro-batches") {
  const auto model = make_gpt();
  const Weights dense = copies_of(*model);
  const at::Tensor head = dense.at("wte.weight").detach().clone().requires_grad_();
  for (const at::Tensor& tokens : micro_batches()) {
    const at::Tensor logits = model->forward(tokens);
    const at::Tensor expected = untied_logits(tokens, dense, head);
    REQUIRE(max_difference(logits, expected) <= 1e-10);
    loss_of(logits).backward();
    loss_of(expected).backward();
  }
  for (const auto& [name, parameter] : model->parameters()) {
    INFO(name);
    const at::Tensor& own = dense.at(name).grad();
    const at::Tensor expected = name == "wte.weight" ? own + head.grad() : own;
    REQUIRE(parameter.grad().layout() == at::kStrided);
    CHECK(max_difference(parameter.grad(), expected) <= 1e-10);
    CHECK(expected.abs().max().item<double>() > 1e-4);
  }
}

TEST_CASE("gpt: gradients of micro-batches add up to those of the whole batch") {
  const auto parts = make_gpt();
  const auto whole = make_gpt();
  const std::vector<at::Tensor> tokens = micro_batches();
  for (const at::Tensor& part : tokens) loss_of(parts->forward(part)).div(2).backward();
  loss_of(whole->forward(at::cat({tokens[0], tokens[1]}))).backward();
  for (std::size_t i = 0; i < parts->parameters().size(); ++i) {
    INFO(parts->parameters()[i].name);
    CHECK(max_difference(parts->parameters()[i].tensor.grad(),
                         whole->parameters()[i].tensor.grad()) <= 1e-10);
  }
}
