#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/fused_blocks.hpp"
#include "stages/model/blocks/transformer_blocks.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>

namespace trainctl::stages {
namespace {

class PositionalEmbeddingLayer final : public LayeredModule {
 public:
  PositionalEmbeddingLayer(const spec::layer::PositionalEmbedding& options,
                           const stage::LayerContext& context) {
    const spec::layer::Shape& shape = context.input.shape;
    const std::int64_t rows = options.num_embeddings.value_or(shape[0]);
    weight_ =
        add_parameter("weight", at::empty({rows, shape[1]}, at::kFloat).normal_(0, options.std));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return inputs + weight_.narrow(0, 0, inputs.size(1));
  }

 private:
  at::Tensor weight_;
};

class MultiheadAttentionLayer final : public LayeredModule {
 public:
  MultiheadAttentionLayer(const spec::layer::MultiheadAttention& options,
                          const stage::LayerContext& context)
      : attention_(make_multihead_attention(
            Scope(*this), {.width = context.input.shape[1],
                           .heads = options.num_heads,
                           .dropout = options.dropout,
                           .bias = options.bias ? Bias::with : Bias::without,
                           .mask = options.is_causal ? Mask::causal : Mask::none})) {}

  at::Tensor forward(const at::Tensor& inputs) override { return attention_(inputs, mode()); }

 private:
  MultiheadAttention attention_;
};

class TransformerEncoderLayer final : public LayeredModule {
 public:
  TransformerEncoderLayer(const spec::layer::TransformerEncoderLayer& options,
                          const stage::LayerContext& context)
      : options_(options) {
    const Scope scope(*this);
    const Bias bias = options.bias ? Bias::with : Bias::without;
    const std::int64_t width = context.input.shape[1];
    attention_ = make_multihead_attention(scope / "self_attn",
                                          {.width = width,
                                           .heads = options.nhead,
                                           .dropout = options.dropout,
                                           .bias = bias,
                                           .mask = options.is_causal ? Mask::causal : Mask::none});
    linear1_ = make_linear(scope / "linear1", width, options.dim_feedforward, bias);
    linear2_ = make_linear(scope / "linear2", options.dim_feedforward, width, bias);
    norm1_ = make_layer_norm(scope / "norm1", width, options.layer_norm_eps, bias);
    norm2_ = make_layer_norm(scope / "norm2", width, options.layer_norm_eps, bias);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return checkpointed([this](const at::Tensor& x) { return block(x); }, inputs);
  }
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  [[nodiscard]] at::Tensor block(const at::Tensor& x) const {
    if (options_.norm_first) {
      const at::Tensor y = x + dropped(attention_(norm1_(x), mode()));
      return y + dropped(feed_forward(norm2_(y)));
    }
    const at::Tensor y = norm1_(x + dropped(attention_(x, mode())));
    return norm2_(y + dropped(feed_forward(y)));
  }
  [[nodiscard]] at::Tensor feed_forward(const at::Tensor& x) const {
    const bool gelu = options_.activation == spec::layer::EncoderActivation::gelu;
    return linear2_(dropped(gelu ? linear_gelu(linear1_, x) : at::relu(linear1_(x))));
  }
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x) const {
    return at::dropout(x, options_.dropout, training());
  }

  spec::layer::TransformerEncoderLayer options_;
  MultiheadAttention attention_;
  Linear linear1_;
  Linear linear2_;
  LayerNorm norm1_;
  LayerNorm norm2_;
};

}  // namespace

void register_layer_sequence(stage::Catalog& catalog) {
  auto& layers = catalog.layers;
  layers.add_class<spec::layer::PositionalEmbedding, PositionalEmbeddingLayer>(
      "positional_embedding");
  layers.add_class<spec::layer::MultiheadAttention, MultiheadAttentionLayer>("multihead_attention");
  layers.add_class<spec::layer::TransformerEncoderLayer, TransformerEncoderLayer>(
      "transformer_encoder_layer");
}

}  // namespace trainctl::stages
