#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Linear {
  static constexpr auto kSummary =
      "Fully connected layer on the last extent of its input, as torch's Linear.";

  config::Auto<std::int64_t> out_features;
  bool bias = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    Shape shape = input.shape;
    shape.back() = out_features.value_or(input.outputs);
    return {shape, {}, {}};
  }
  static void describe(config::Describe<Linear>& options) {
    options
        .field("out_features", &Linear::out_features,
               "Numbers of its output; auto: those that the data asks for, one a class.")
        .at_least(1)
        .at_most(1 << 24)
        .example("64");
    options.field("bias", &Linear::bias, "Adds a learnt bias.");
  }
};

struct Embedding {
  static constexpr auto kSummary =
      "A learnt row of numbers for each token of the data set's vocab_size, as torch's Embedding.";

  static constexpr bool kTakesTokens = true;
  std::int64_t embedding_dim = 0;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    if (!input.tokens) return {{}, "it takes tokens, and these are numbers", "remove it"};
    Shape shape = input.shape;
    shape.push_back(embedding_dim);
    return {shape, {}, {}};
  }
  static void describe(config::Describe<Embedding>& options) {
    options.field("embedding_dim", &Embedding::embedding_dim, "Numbers that stand for a token.")
        .required()
        .at_least(1)
        .at_most(1 << 20)
        .example("64");
  }
};

}  // namespace trainctl::spec::layer
