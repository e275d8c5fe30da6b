#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"
#include "stages/model/blocks/fused_blocks.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

constexpr double kConvnextEps = 1e-6;
constexpr std::array<std::int64_t, 4> kWidths{96, 192, 384, 768};
constexpr std::array<std::int64_t, 4> kDepths{3, 3, 9, 3};
constexpr std::int64_t kBlocks = 18;

/// A depthwise 7x7 convolution, then an MLP with a hidden width of four times the channels at each
/// pixel.
struct ConvnextBlock {
  at::Tensor layer_scale;
  Conv2d conv;
  LayerNorm norm;
  Linear widen;
  Linear narrow;
  double drop_probability = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
    const bool training = mode == stage::RunMode::train;
    const at::Tensor x_nhwc = norm(conv(x_nchw).permute({0, 2, 3, 1}));
    const at::Tensor branch = narrow(linear_gelu(widen, x_nhwc)).permute({0, 3, 1, 2});
    return x_nchw + stochastic_depth(layer_scale * branch, drop_probability, training);
  }
};

ConvnextBlock make_convnext_block(const Scope& scope, std::int64_t width, double layer_scale,
                                  double drop_probability) {
  const Scope inner = scope / "block";
  ConvnextBlock block;
  block.layer_scale =
      scope.parameter("layer_scale", at::full({width, 1, 1}, layer_scale, at::kFloat));
  block.conv = make_conv2d(
      inner / 0,
      {.in = width, .out = width, .kernel = 7, .groups = width, .padding = 3, .bias = Bias::with});
  block.norm = make_layer_norm(inner / 2, {width}, kConvnextEps);
  block.widen = make_linear(inner / 3, width, 4 * width);
  block.narrow = make_linear(inner / 5, 4 * width, width);
  block.drop_probability = drop_probability;
  return block;
}

/// Normalization and a convolution that halves the image size.
struct Downsampling {
  LayerNorm norm;
  Conv2d conv;
};

struct Stage {
  std::vector<ConvnextBlock> blocks;
  std::optional<Downsampling> downsampling;  // not set for the last stage
};

class ConvnextTiny final : public LayeredModule {
 public:
  ConvnextTiny(const spec::model::ConvnextTiny& options, const stage::ModelContext& context) {
    check_input(options, context);
    const Scope scope(*this);
    const Scope features = scope / "features";
    stem_ = make_conv2d(features / 0 / 0, {.in = context.input_shape[0],
                                           .out = kWidths[0],
                                           .kernel = 4,
                                           .stride = 4,
                                           .padding = 0,
                                           .bias = Bias::with});
    stem_norm_ = make_layer_norm(features / 0 / 1, {kWidths[0]}, kConvnextEps);
    for (std::size_t i = 0; i < kWidths.size(); ++i) add_stage(features, i, options);
    norm_ = make_layer_norm(scope / "classifier" / 0, {kWidths.back()}, kConvnextEps);
    head_ = make_linear(scope / "classifier" / 2, kWidths.back(), context.outputs);
    redraw_weights();
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = stem_norm_.normalize_channels(stem_(inputs_nchw));
    for (const Stage& stage : stages_) {
      x = through_blocks(stage.blocks, std::move(x));
      if (!stage.downsampling) continue;
      x = stage.downsampling->conv(stage.downsampling->norm.normalize_channels(x));
    }
    constexpr std::array<std::int64_t, 2> kSpace{2, 3};
    return head_(norm_(at::mean(x, at::IntArrayRef(kSpace))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Adds blocks as features.1, 3, 5 and 7; the downsampling layers are in between.
  void add_stage(const Scope& features, std::size_t index,
                 const spec::model::ConvnextTiny& options) {
    Stage& stage = stages_.emplace_back();
    const std::size_t place = 2 * index + 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kDepths[index]); ++i) {
      const double share = static_cast<double>(blocks_++) / (kBlocks - 1.0);
      stage.blocks.push_back(make_convnext_block(features / place / i, kWidths[index],
                                                 options.layer_scale,
                                                 options.stochastic_depth_prob * share));
    }
    if (index + 1 == kWidths.size()) return;
    const Scope between = features / (place + 1);
    stage.downsampling.emplace();
    stage.downsampling->norm = make_layer_norm(between / 0, {kWidths[index]}, kConvnextEps);
    stage.downsampling->conv = make_conv2d(between / 1, {.in = kWidths[index],
                                                         .out = kWidths[index + 1],
                                                         .kernel = 2,
                                                         .stride = 2,
                                                         .padding = 0,
                                                         .bias = Bias::with});
  }

  /// torchvision's constructor reinitializes every convolution and linear layer in order.
  void redraw_weights() {
    const at::NoGradGuard guard;
    bool drawn = false;  // whether the weight before a bias was reinitialized
    for (const auto& [name, tensor] : parameters()) {
      if (name.ends_with(".weight")) {
        drawn = tensor.dim() > 1;
        if (drawn) redraw_trunc_normal(tensor, 0.02);
      } else if (drawn && name.ends_with(".bias")) {
        tensor.zero_();
      }
    }
  }

  Conv2d stem_;
  LayerNorm stem_norm_;
  std::vector<Stage> stages_;
  std::int64_t blocks_ = 0;
  LayerNorm norm_;
  Linear head_;
};

}  // namespace

void register_model_convnext(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::ConvnextTiny, ConvnextTiny>("convnext_tiny");
}

}  // namespace trainctl::stages
