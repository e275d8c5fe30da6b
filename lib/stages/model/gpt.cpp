#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/fused_blocks.hpp"
#include "stages/model/blocks/layers.hpp"
#include "stages/model/blocks/transformer_blocks.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

constexpr double kDeviation = 0.02;

at::Tensor drawn(at::IntArrayRef shape, double deviation) {
  const at::Tensor tensor = at::empty(shape, at::kFloat);
  redraw_normal(tensor, deviation);
  return tensor;
}

/// A linear layer in the format of GPT-2's files, where it is called Conv1D: the weight is [in,
/// out], the transpose of nn.Linear's.
struct GptLinear {
  at::Tensor weight;
  at::Tensor bias;

  /// x: [N, T, in].
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const {
    return at::addmm(bias, x.flatten(0, 1), weight).unflatten(0, x.sizes().slice(0, 2));
  }
  /// Returns GELU (by tanh) of the layer's output.
  [[nodiscard]] at::Tensor gelu(const at::Tensor& x) const {
    if (!fuses_bias_gelu(x, bias)) return at::gelu((*this)(x), "tanh");
    const at::Tensor product = at::mm(x.flatten(0, 1), weight);
    return fused_bias_gelu(product, bias, Gelu::tanh).unflatten(0, x.sizes().slice(0, 2));
  }
};

GptLinear make_gpt_linear(const Scope& scope, std::int64_t in, std::int64_t out,
                          double deviation = kDeviation) {
  GptLinear layer;
  layer.weight = scope.parameter("weight", drawn({in, out}, deviation));
  layer.bias = scope.parameter("bias", at::zeros({out}, at::kFloat));
  return layer;
}

struct GptBlock {
  LayerNorm ln_1;
  GptLinear c_attn;
  GptLinear attn_c_proj;
  LayerNorm ln_2;
  GptLinear c_fc;
  GptLinear mlp_c_proj;
  std::int64_t heads = 1;
  double dropout = 0;

  [[nodiscard]] Residual operator()(const Residual& residual, stage::RunMode mode) const {
    const bool training = mode == stage::RunMode::train;
    const AttentionOptions options{heads, training ? dropout : 0, Mask::causal};
    const auto [x, normed_x] = add_norm(ln_1, residual);
    const at::Tensor attended = attn_c_proj(self_attention(c_attn(normed_x), options));
    const auto [y, normed_y] = add_norm(ln_2, {x, at::dropout(attended, dropout, training)});
    return {y, at::dropout(mlp_c_proj(c_fc.gelu(normed_y)), dropout, training)};
  }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, stage::RunMode mode) const {
    return (*this)(Residual{x}, mode).sum();
  }
};

/// The two layers per block that write to the residual stream have initial weights scaled by
/// 1/sqrt(2 layers) (Radford et al. 2019, section 2.3).
GptBlock make_gpt_block(const Scope& scope, const spec::model::Gpt& options) {
  const std::int64_t width = options.width;
  const double added = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  GptBlock block;
  block.ln_1 = make_layer_norm(scope / "ln_1", {width});
  block.c_attn = make_gpt_linear(scope / "attn" / "c_attn", width, 3 * width);
  block.attn_c_proj = make_gpt_linear(scope / "attn" / "c_proj", width, width, added);
  block.ln_2 = make_layer_norm(scope / "ln_2", {width});
  block.c_fc = make_gpt_linear(scope / "mlp" / "c_fc", width, 4 * width);
  block.mlp_c_proj = make_gpt_linear(scope / "mlp" / "c_proj", 4 * width, width, added);
  block.heads = options.heads;
  block.dropout = options.dropout;
  return block;
}

/// The names are those of GPT-2's published weights, "wte.weight" to "ln_f.bias". The output layer
/// shares the token embedding. Weights are initialized in the order of the names.
class Gpt final : public LayeredModule {
 public:
  Gpt(const spec::model::Gpt& options, const stage::ModelContext& context)
      : dropout_(options.dropout) {
    check_input(options, context);
    const Scope scope(*this);
    wte_ = (scope / "wte").parameter("weight", drawn({context.outputs, options.width}, kDeviation));
    wpe_ = (scope / "wpe").parameter("weight", drawn({options.context, options.width}, kDeviation));
    for (std::size_t i = 0; i < static_cast<std::size_t>(options.layers); ++i)
      blocks_.push_back(make_gpt_block(scope / "h" / i, options));
    ln_f_ = make_layer_norm(scope / "ln_f", {options.width});
  }

  /// tokens: int64 [N, T]; returns logits [N, T, vocabulary size].
  at::Tensor forward(const at::Tensor& tokens) override {
    const at::Tensor places = wpe_.narrow(0, 0, tokens.size(1));
    Residual residual{at::dropout(embed_tied(wte_, tokens) + places, dropout_, training())};
    if (checkpoints()) {
      residual.x = through_blocks(blocks_, std::move(residual.x));
    } else {
      for (const GptBlock& block : blocks_) residual = block(residual, mode());
    }
    return output_layer(add_norm(ln_f_, residual).normed, wte_);
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  double dropout_;
  at::Tensor wte_, wpe_;
  std::vector<GptBlock> blocks_;
  LayerNorm ln_f_;
};

}  // namespace

void register_model_gpt(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Gpt, Gpt>("gpt");
}

}  // namespace trainctl::stages
