#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/fused_blocks.hpp"
#include "stages/model/blocks/layers.hpp"
#include "stages/model/blocks/transformer_blocks.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

struct TransformerSize {
  std::int64_t width;
  std::int64_t depth;
  std::int64_t heads;
  std::int64_t inner;  // hidden width of the MLP
};

constexpr double kEncoderEps = 1e-6;

/// Attention and MLP, each with a normalization before it and a residual connection.
struct EncoderBlock {
  LayerNorm ln_1;
  MultiheadAttention self_attention;
  LayerNorm ln_2;
  MlpBlock mlp;
  double dropout = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, stage::RunMode mode) const {
    return (*this)(Residual{x}, mode).sum();
  }
  [[nodiscard]] Residual operator()(const Residual& residual, stage::RunMode mode) const {
    const bool training = mode == stage::RunMode::train;
    const auto [x, normed_x] = add_norm(ln_1, residual);
    const at::Tensor attended = at::dropout(self_attention(normed_x, mode), dropout, training);
    const auto [y, normed_y] = add_norm(ln_2, {x, attended});
    return {y, mlp(normed_y, mode)};
  }
};

EncoderBlock make_encoder_block(const Scope& scope, const TransformerSize& size,
                                const spec::model::VisionTransformer& options) {
  EncoderBlock block;
  block.ln_1 = make_layer_norm(scope / "ln_1", {size.width}, kEncoderEps);
  block.self_attention = make_multihead_attention(
      scope / "self_attention", {size.width, size.heads, options.attention_dropout});
  block.ln_2 = make_layer_norm(scope / "ln_2", {size.width}, kEncoderEps);
  block.mlp = make_mlp_block(scope / "mlp", {size.width, size.inner, options.dropout});
  block.dropout = options.dropout;
  return block;
}

/// torchvision's VisionTransformer, extended to any number of channels and to images that are not
/// square. Throws Error(config) if the image size is not divisible by the patch size.
class VisionTransformer final : public LayeredModule {
 public:
  VisionTransformer(const TransformerSize& size, const spec::model::VisionTransformer& options,
                    const stage::ModelContext& context)
      : dropout_(options.dropout) {
    check_input(options, context);
    const std::int64_t patch = options.patch_size;
    const std::int64_t patches =
        (context.input_shape[1] / patch) * (context.input_shape[2] / patch);
    const Scope scope(*this);
    class_token_ = scope.parameter("class_token", at::zeros({1, 1, size.width}, at::kFloat));
    conv_proj_ = make_conv2d(scope / "conv_proj", {.in = context.input_shape[0],
                                                   .out = size.width,
                                                   .kernel = patch,
                                                   .stride = patch,
                                                   .padding = 0,
                                                   .bias = Bias::with});
    const at::Tensor positions = at::empty({1, patches + 1, size.width}, at::kFloat);
    redraw_normal(positions, 0.02);
    pos_embedding_ = (scope / "encoder").parameter("pos_embedding", positions);
    for (std::int64_t i = 0; i < size.depth; ++i) {
      const std::string name = "encoder_layer_" + std::to_string(i);
      blocks_.push_back(make_encoder_block(scope / "encoder" / "layers" / name, size, options));
    }
    ln_ = make_layer_norm(scope / "encoder" / "ln", {size.width}, kEncoderEps);
    head_ = make_linear(scope / "heads" / "head", size.width, context.outputs);
    redraw_ends();
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    const at::Tensor patches = conv_proj_(inputs_nchw).flatten(2).transpose(1, 2);
    const at::Tensor token = class_token_.expand({patches.size(0), -1, -1});
    at::Tensor x = at::cat({token, patches}, 1) + pos_embedding_;
    x = at::dropout(x, dropout_, training());
    if (checkpoints()) return head_(ln_(through_blocks(blocks_, std::move(x))).select(1, 0));
    Residual residual{std::move(x)};
    for (const EncoderBlock& block : blocks_) residual = block(residual, mode());
    return head_(add_norm(ln_, residual).normed.select(1, 0));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// torchvision's constructor reinitializes the patch projection and sets the head to 0.
  void redraw_ends() {
    const at::NoGradGuard guard;
    const std::int64_t fan_in = conv_proj_.weight.numel() / conv_proj_.weight.size(0);
    redraw_trunc_normal(conv_proj_.weight, std::sqrt(1.0 / static_cast<double>(fan_in)));
    for (const at::Tensor& tensor : {conv_proj_.bias, head_.weight, head_.bias}) tensor.zero_();
  }

  double dropout_;
  at::Tensor class_token_, pos_embedding_;
  Conv2d conv_proj_;
  std::vector<EncoderBlock> blocks_;
  LayerNorm ln_;
  Linear head_;
};

}  // namespace

void register_model_vision_transformer(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::VitB16, VisionTransformer>(
      "vit_b_16", TransformerSize{768, 12, 12, 3072});
  catalog.models.add_class<spec::model::VitTiny, VisionTransformer>(
      "vit_tiny", TransformerSize{192, 12, 3, 768});
}

}  // namespace trainctl::stages
