#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

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
