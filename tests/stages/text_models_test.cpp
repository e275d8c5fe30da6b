#include "stages/builtin.hpp"
#include "stages/model/blocks/recurrent.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using stages_test::make_model;
using stages_test::perturb;
using stages_test::tensor;

namespace {

constexpr std::int64_t kTextVocabulary = 13;
constexpr spec::SampleKind kPredicted{spec::Inputs::tokens, spec::Targets::tokens};
constexpr spec::SampleKind kLabeledTexts{spec::Inputs::tokens, spec::Targets::classes,
                                         kTextVocabulary,
                                         /*padding_id=*/0};
const stage::ModelContext kStream{{7}, kTextVocabulary, kPredicted};
const stage::ModelContext kClassified{{7}, 3, kLabeledTexts};

/// Small models that classify, and one that predicts tokens.
const std::vector<std::pair<std::string, std::string>> kClassifiers{
    {"lstm_classifier", "{embedding_dim: 4, hidden_size: 3, num_layers: 2}"},
    {"lstm_classifier", "{embedding_dim: 4, hidden_size: 3, pooling: mean}"},
    {"bert", "{layers: 1, heads: 2, width: 8, context: 9}"},
    {"sequential",
     "{layers: [{type: embedding, embedding_dim: 4}, {type: gru, hidden_size: 3, num_layers: 2, "
     "bidirectional: true, packed: true, output: last}, linear]}"},
    {"sequential",
     "{layers: [{type: embedding, embedding_dim: 4}, {type: concat, dim: 2, branches: [{layers: "
     "[{type: lstm, hidden_size: 3, bidirectional: true, packed: true}]}, {layers: [{type: rnn, "
     "hidden_size: 3, packed: true}]}]}, {type: lstm, hidden_size: 3, packed: true, output: last}, "
     "linear]}"}};

}  // namespace

TEST_CASE("text models: seeded weights, names, outputs and gradients equal PyTorch's") {
  const Json golden = stages_test::golden("text_models");
  REQUIRE(golden["vocabulary"] == kTextVocabulary);
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"] << (run["classes"] ? " of classes" : ""));
    at::manual_seed(golden["seed"]);
    const auto model = make_model(run["type"], run["options"].dump(),
                                  run["classes"].get<bool>() ? kClassified : kStream);
    stages_test::check_names(model->parameters(), run["parameters"]);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    const at::Tensor output = model->forward(tensor(run["tokens"], at::kLong));
    const at::Tensor expected = tensor(run["output"]);
    CHECK(mismatch(output.detach(), expected, share_of_largest(expected, 1e-5)) == "");
    (output * at::arange(output.numel(), at::kDouble).sin().to(at::kFloat).view(output.sizes()))
        .sum()
        .backward();
    stages_test::check_gradients(*model, run["gradients"]);
  }
}

TEST_CASE("token_lengths: counts up to the last token that is no padding, and at least 1") {
  const at::Tensor tokens =
      at::tensor({4, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}, at::kLong).view({3, 5});
  const at::Tensor lengths = stages::token_lengths(tokens, 0);
  CHECK(lengths.equal(at::tensor({3, 1, 5}, at::kLong)));
  CHECK(stages::token_lengths(tokens, 9).equal(at::tensor({5, 5, 5}, at::kLong)));
  CHECK(stages::within(lengths, 5).sum(1).equal(lengths));
}

TEST_CASE("text models: more padding does not change the outputs") {
  const at::Tensor longer =
      at::tensor({3, 1, 4, 0, 0, 0, 0, 5, 9, 0, 0, 0, 0, 0}, at::kLong).view({2, 7});
  for (const auto& [type, options] : kClassifiers) {
    INFO(type << options);
    const auto model = make_model(type, options, kClassified);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    const at::NoGradGuard guard;
    const at::Tensor expected = model->forward(longer.narrow(1, 0, 3));
    CHECK(mismatch(model->forward(longer), expected, share_of_largest(expected, 1e-5)) == "");
    const at::Tensor alone = model->forward(longer.narrow(0, 1, 1).narrow(1, 0, 2));
    CHECK(mismatch(alone[0], expected[1], share_of_largest(expected, 1e-5)) == "");
  }
}

TEST_CASE("text models: every parameter that the texts use gets a nonzero gradient") {
  const at::Tensor tokens = at::arange(14).remainder(12).add(1).view({2, 7});
  auto all = kClassifiers;
  all.emplace_back("lstm_lm", "{hidden_size: 6}");
  all.emplace_back("bert", "{layers: 1, heads: 2, width: 8, context: 7, norm_first: true}");
  for (const auto& [type, options] : all) {
    INFO(type << options);
    const bool predicts = type == "lstm_lm" || options.find("norm_first") != std::string::npos;
    const auto model = make_model(type, options, predicts ? kStream : kClassified);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    model->forward(tokens).log_softmax(-1).select(-1, 0).sum().backward();
    for (const auto& [name, parameter] : model->parameters()) {
      if (name.ends_with("key.bias")) continue;  // adds the same to all scores of a query
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(parameter.grad().to_dense().abs().sum().item<double>() > 0);
    }
  }
}

TEST_CASE("text models: dropout is random in training and off in evaluation") {
  const at::Tensor tokens = at::arange(14).remainder(12).add(1).view({2, 7});
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"lstm_classifier", "{embedding_dim: 4, hidden_size: 8"},
           {"lstm_lm", "{hidden_size: 8"},
           {"bert", "{layers: 1, heads: 2, width: 8, context: 7"}}) {
    INFO(type);
    const stage::ModelContext& context = type == "lstm_lm" ? kStream : kClassified;
    const auto model = make_model(type, options + "}", context);
    perturb(*model);
    const at::NoGradGuard guard;
    CHECK_FALSE(model->forward(tokens).equal(model->forward(tokens)));
    model->set_mode(stage::RunMode::evaluate);
    CHECK(model->forward(tokens).equal(model->forward(tokens)));
    const auto plain = make_model(type, options + ", dropout: 0}", context);
    CHECK(plain->forward(tokens).equal(plain->forward(tokens)));
  }
}

TEST_CASE("lstm_lm: a token's logits do not depend on later tokens, those of bert do") {
  at::Tensor tokens = at::arange(14).remainder(12).add(1).view({2, 7});
  const auto changes = [&](const std::string& type, const std::string& options) {
    const auto model = make_model(type, options, kStream);
    perturb(*model);
    model->set_mode(stage::RunMode::evaluate);
    const at::NoGradGuard guard;
    const at::Tensor before = model->forward(tokens);
    at::Tensor other = tokens.clone();
    other.select(1, 5).fill_(0);
    const at::Tensor after = model->forward(other);
    CHECK_FALSE(after.select(1, 6).equal(before.select(1, 6)));
    return !after.narrow(1, 0, 5).equal(before.narrow(1, 0, 5));
  };
  CHECK_FALSE(changes("lstm_lm", "{hidden_size: 6}"));
  CHECK(changes("bert", "{layers: 1, heads: 2, width: 8, context: 7}"));
}

TEST_CASE("bert: activation checkpointing gives equal gradients, also with dropout and padding") {
  const at::Tensor tokens = at::tensor({3, 1, 4, 0, 0, 5, 9, 2, 6, 5}, at::kLong).view({2, 5});
  const auto model =
      make_model("bert", "{layers: 2, heads: 2, width: 8, context: 9}", {{5}, 3, kLabeledTexts});
  perturb(*model);
  const auto gradients = [&] {
    at::manual_seed(2);
    model->forward(tokens).pow(2).sum().backward();
    std::vector<at::Tensor> all;
    for (const auto& [name, parameter] : model->parameters())
      all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    return all;
  };
  const auto kept = gradients();
  CHECK(model->checkpoint_activations());
  const auto recomputed = gradients();
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(recomputed[i].equal(kept[i]));
}

TEST_CASE("text models: samples and options that do not fit are an error") {
  CHECK_THROWS_WITH(make_model("lstm_lm", "{embedding_dim: 4, hidden_size: 6}", kStream),
                    Contains("with tie_weights, embedding_dim must be hidden_size (6), got 4"));
  CHECK_THROWS_WITH(make_model("lstm_lm", "{}", kClassified),
                    Contains("lstm_lm predicts the next token at each position, but the targets "
                             "are classes") &&
                        Contains("choose model lstm_classifier"));
  CHECK_THROWS_WITH(make_model("lstm_classifier", "{}", kStream),
                    Contains("one answer for each text, but the targets are tokens"));
  CHECK_THROWS_WITH(make_model("bert", "{heads: 5, layers: 1}", kClassified),
                    Contains("width must be a multiple of heads (5), got 768"));
  CHECK_THROWS_WITH(make_model("bert", "{context: 6, layers: 1}", kClassified),
                    Contains("raise model.context to 7, or lower max_length"));
  const std::string packed =
      "{layers: [{type: embedding, embedding_dim: 4}, {type: gru, hidden_size: 3, packed: true}, "
      "linear]}";
  CHECK_THROWS_WITH(make_model("sequential", packed, kStream),
                    Contains("'packed' needs texts that are padded to one length"));
}
