#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"
#include "spec/sample.hpp"

#include <array>
#include <cstdint>
#include <vector>

// Options of the models that read tokens, except gpt.

namespace trainctl::spec::model {

/// The base of models that accept only tokens.
struct OfTokens {
  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::tokens; }
};

/// The LSTM of a model.
struct TextLstm : OfTokens {
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 1;
  double dropout = 0;

  static void describe(auto& options) {
    options.field("hidden_size", &TextLstm::hidden_size, {.at_least = 1, .at_most = 1 << 20},
                  "Size of the LSTM's state, in each direction.");
    options.field("num_layers", &TextLstm::num_layers, {.at_least = 1, .at_most = 1 << 10},
                  "Number of stacked LSTM layers; each reads the outputs of the one before.");
  }
};

enum class Pooling { last, mean };
constexpr std::array<const char*, 2> enum_names(Pooling) { return {"last", "mean"}; }

struct LstmClassifier : TextLstm {
  static constexpr auto kSummary =
      "LSTM that classifies texts: an embedding, an LSTM that skips padding, pooling, dropout and "
      "a "
      "linear layer (Hochreiter & Schmidhuber 1997).";

  std::int64_t embedding_dim = 128;
  bool bidirectional = true;
  Pooling pooling = Pooling::last;

  LstmClassifier() {
    hidden_size = 128;
    dropout = 0.5;
  }

  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input);

  static void describe(auto& options) {
    using Self = LstmClassifier;
    options.field("embedding_dim", &Self::embedding_dim, {.at_least = 1, .at_most = 1 << 20},
                  "Size of the vector of each token.");
    TextLstm::describe(options);
    options.field("bidirectional", &Self::bidirectional,
                  "Also reads each text backward, from its last token.");
    options.field("pooling", &Self::pooling,
                  "last: the final state of each direction; mean: the mean of the outputs at all "
                  "tokens of the text.");
    options.field("dropout", &Self::dropout, {.at_least = 0, .below = 1},
                  "Probability of zeroing outputs between stacked layers, and inputs of the linear "
                  "layer.");
  }
};

struct LstmLm : TextLstm {
  static constexpr auto kSummary =
      "LSTM that predicts the next token (Zaremba et al. 2014), with the parameter names of "
      "PyTorch's example word_language_model.";

  config::Auto<std::int64_t> embedding_dim;
  bool tie_weights = true;

  LstmLm() {
    hidden_size = 200;
    num_layers = 2;
    dropout = 0.2;
  }

  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("embedding_dim", &LstmLm::embedding_dim,
                  {.at_least = 1, .at_most = 1 << 20, .example = "200"},
                  "Size of the vector of each token; auto: hidden_size.");
    TextLstm::describe(options);
    options.field("tie_weights", &LstmLm::tie_weights,
                  "The output layer shares the weight of the embedding (Press & Wolf 2016), which "
                  "requires vectors of the size of the state.");
    options.field("dropout", &LstmLm::dropout, {.at_least = 0, .below = 1},
                  "Probability of zeroing embeddings, outputs between stacked layers and inputs of "
                  "the output layer.");
  }
};

struct Bert : OfTokens {
  static constexpr auto kSummary =
      "Encoder of BERT (Devlin et al. 2018) with the parameter names of Hugging Face's; it "
      "predicts masked tokens or, on texts with classes, the class.";

  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 512;
  double dropout = 0.1;
  bool norm_first = false;

  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(auto& options) {
    options.field("layers", &Bert::layers, {.at_least = 1, .at_most = 1024}, "Number of blocks.");
    options.field("heads", &Bert::heads, {.at_least = 1, .at_most = 1024},
                  "Attention heads per block; must divide 'width'.");
    options.field("width", &Bert::width, {.at_least = 1, .at_most = 1 << 17},
                  "Embedding size between the blocks; the hidden layers are four times as wide.");
    options.field("context", &Bert::context, {.at_least = 1, .at_most = 1 << 24},
                  "Longest sequence, in tokens; the size of the position embedding.");
    options.field("dropout", &Bert::dropout, {.at_least = 0, .below = 1},
                  "Dropout probability of the embeddings, the attention weights, the outputs of "
                  "attention and MLP, and the input of the classifier.");
    options.field("norm_first", &Bert::norm_first,
                  "Normalizes the inputs of attention and MLP and the final output (Xiong et al. "
                  "2020), which trains without warm-up. false: the sums after them, as in BERT.");
  }
};

}  // namespace trainctl::spec::model
