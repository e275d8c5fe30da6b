#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer_shapes.hpp"

#include <array>
#include <cstdint>

// Options of the layers that read a sequence, T x E: T vectors of E features each.

namespace trainctl::spec::layer {

struct PositionalEmbedding {
  static constexpr auto kSummary =
      "Adds a learnable vector to each position of a sequence, T x E (Gehring et al. 2017).";

  config::Auto<std::int64_t> num_embeddings;
  double std = 0.02;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("num_embeddings", &PositionalEmbedding::num_embeddings,
                  {.at_least = 1, .at_most = 1 << 24, .example = "1024"},
                  "Number of vectors, at least the length of the sequence; auto: this length.");
    options.field("std", &PositionalEmbedding::std, {.at_least = 0},
                  "Standard deviation of the initial vectors; 0.02 as in GPT-2.");
  }
};

struct MultiheadAttention {
  static constexpr auto kSummary =
      "Self-attention over a sequence, T x E (Vaswani et al. 2017), as torch's MultiheadAttention.";

  std::int64_t num_heads = 0;
  double dropout = 0;
  bool bias = true;
  bool is_causal = false;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("num_heads", &MultiheadAttention::num_heads,
                  {.required = true, .at_least = 1, .at_most = 1 << 16, .example = "4"},
                  "Number of heads, which must divide the features.");
    options.field("dropout", &MultiheadAttention::dropout, {.at_least = 0, .below = 1},
                  "Probability that an attention weight is zeroed in training.");
    options.field("bias", &MultiheadAttention::bias, "Adds learnable biases to the projections.");
    options.field("is_causal", &MultiheadAttention::is_causal,
                  "Each position attends only to itself and earlier positions.");
  }
};

enum class EncoderActivation { relu, gelu };
constexpr std::array<const char*, 2> enum_names(EncoderActivation) { return {"relu", "gelu"}; }

struct TransformerEncoderLayer {
  static constexpr auto kSummary =
      "Self-attention and a two-layer network, each with a residual connection and a layer norm "
      "(Vaswani et al. 2017), as torch's TransformerEncoderLayer.";

  std::int64_t nhead = 0;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  EncoderActivation activation = EncoderActivation::relu;
  double layer_norm_eps = 1e-5;
  bool norm_first = false;
  bool bias = true;
  bool is_causal = false;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    using Self = TransformerEncoderLayer;
    options.field("nhead", &Self::nhead,
                  {.required = true, .at_least = 1, .at_most = 1 << 16, .example = "4"},
                  "Number of heads, which must divide the features.");
    options.field("dim_feedforward", &Self::dim_feedforward, {.at_least = 1, .at_most = 1 << 24},
                  "Number of hidden units of the two-layer network.");
    options.field("dropout", &Self::dropout, {.at_least = 0, .below = 1},
                  "Probability of zeroing attention weights, hidden units and branch outputs.");
    options.field("activation", &Self::activation, "Activation of the two-layer network.");
    options.field("layer_norm_eps", &Self::layer_norm_eps, {.above = 0}, "Added to the variance.");
    options.field("norm_first", &Self::norm_first,
                  "Normalizes the inputs of the two branches instead of their sums.");
    options.field("bias", &Self::bias, "Adds learnable biases to linear layers and layer norms.");
    options.field("is_causal", &Self::is_causal,
                  "Each position attends only to itself and earlier positions.");
  }
};

enum class RecurrentOutput { sequence, last };
constexpr std::array<const char*, 2> enum_names(RecurrentOutput) { return {"sequence", "last"}; }

/// The options of all recurrent layers.
struct Recurrent {
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 1;
  bool bias = true;
  double dropout = 0;
  bool bidirectional = false;
  bool packed = false;
  RecurrentOutput output = RecurrentOutput::sequence;

  [[nodiscard]] std::int64_t directions() const { return bidirectional ? 2 : 1; }
  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("hidden_size", &Recurrent::hidden_size,
                  {.required = true, .at_least = 1, .at_most = 1 << 20, .example = "128"},
                  "Size of the state.");
    options.field("num_layers", &Recurrent::num_layers, {.at_least = 1, .at_most = 1 << 10},
                  "Number of stacked layers; each reads the outputs of the one before.");
    options.field("bias", &Recurrent::bias, "Adds learnable biases.");
    options.field("dropout", &Recurrent::dropout, {.at_least = 0, .below = 1},
                  "Probability of zeroing outputs between stacked layers in training.");
    options.field("bidirectional", &Recurrent::bidirectional,
                  "Also reads the sequence backward, and concatenates both outputs.");
    options.field("packed", &Recurrent::packed,
                  "Reads each padded text only up to its end, as after torch's "
                  "pack_padded_sequence: the final state is that of the last token, and outputs at "
                  "the padding are 0.");
    options.field("output", &Recurrent::output,
                  "sequence: the outputs at all positions, T x H; last: the final state, H.");
  }
};

enum class Nonlinearity { tanh, relu };
constexpr std::array<const char*, 2> enum_names(Nonlinearity) { return {"tanh", "relu"}; }

struct Rnn : Recurrent {
  static constexpr auto kSummary =
      "Recurrent network over a sequence, T x E (Elman 1990), as torch's RNN.";

  Nonlinearity nonlinearity = Nonlinearity::tanh;

  static void describe(auto& options) {
    Recurrent::describe(options);
    options.field("nonlinearity", &Rnn::nonlinearity, "Activation of the state.");
  }
};

struct Gru : Recurrent {
  static constexpr auto kSummary =
      "Gated recurrent unit over a sequence, T x E (Cho et al. 2014), as torch's GRU.";
};

struct Lstm : Recurrent {
  static constexpr auto kSummary =
      "Long short-term memory over a sequence, T x E (Hochreiter & Schmidhuber 1997), as torch's "
      "LSTM.";
};

}  // namespace trainctl::spec::layer
