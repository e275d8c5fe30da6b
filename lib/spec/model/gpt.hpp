#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::spec::model {

struct Gpt {
  static constexpr auto kSummary =
      "Decoder-only language model with GPT-2's layers and parameter names (Radford et al. 2019).";

  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;
  double dropout = 0.1;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::tokens; }
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(config::Describe<Gpt>& options) {
    options.field("layers", &Gpt::layers, "Number of blocks.").at_least(1).at_most(1024);
    options.field("heads", &Gpt::heads, "Attention heads of a block; 'width' is a multiple of it.")
        .at_least(1)
        .at_most(1024);
    options.field("width", &Gpt::width, "Numbers that stand for a token between the blocks.")
        .at_least(1)
        .at_most(1 << 17);
    options
        .field("context", &Gpt::context,
               "Longest sequence; the rows of the position embedding, 1024 in GPT-2.")
        .at_least(1)
        .at_most(1 << 24);
    options
        .field("dropout", &Gpt::dropout,
               "Probability of dropping a unit: of the embeddings, the attention weights and the "
               "ends of attention and MLP.")
        .at_least(0)
        .below(1);
  }
};

}  // namespace trainctl::spec::model
