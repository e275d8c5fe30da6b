#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"

#include <ATen/ops/dropout.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::stages {
namespace {

/// Table 2 of the paper.
struct MobilenetV2Row {
  std::int64_t expand_ratio, out, blocks, stride;
};

constexpr std::array<MobilenetV2Row, 7> kMobilenetV2Rows{{{1, 16, 1, 1},
                                                          {6, 24, 2, 2},
                                                          {6, 32, 3, 2},
                                                          {6, 64, 4, 2},
                                                          {6, 96, 3, 1},
                                                          {6, 160, 3, 2},
                                                          {6, 320, 1, 1}}};

struct InvertedResidualPlan {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t stride = 1;
  std::int64_t expand_ratio = 1;
};

/// Expansion, depthwise convolution and linear bottleneck, with a shortcut if the shape does not
/// change. The names are torchvision's, below "conv".
MbConv make_inverted_residual(const Scope& scope, const InvertedResidualPlan& plan) {
  const Scope conv = scope / "conv";
  const std::int64_t hidden = plan.in * plan.expand_ratio;
  MbConv block;
  std::size_t next = 0;
  if (plan.expand_ratio != 1) {
    block.expand = make_conv_norm(conv / next++, {.conv = {.in = plan.in, .out = hidden},
                                                  .nonlinearity = Nonlinearity::relu6});
  }
  block.depthwise = make_conv_norm(
      conv / next,
      {.conv = {.in = hidden, .out = hidden, .kernel = 3, .stride = plan.stride, .groups = hidden},
       .nonlinearity = Nonlinearity::relu6});
  block.project =
      make_conv_norm(conv / (next + 1), conv / (next + 2),
                     {.conv = {.in = hidden, .out = plan.out}, .nonlinearity = Nonlinearity::none});
  block.shortcut = plan.stride == 1 && plan.in == plan.out;
  if (block.shortcut) block.output_quantize = make_activation_quantize(scope);
  return block;
}

/// Inverted Residuals and Linear Bottlenecks (Sandler et al. 2018, arXiv:1801.04381): features.0,
/// the blocks, the last convolution; classifier.1.
class MobilenetV2 final : public LayeredModule {
 public:
  MobilenetV2(const spec::model::MobilenetV2& options, const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    if (options.quantize == spec::model::Quantize::int8) train_for_int8();
    input_quantize_ = make_activation_quantize(Scope(*this));
    const Scope features = Scope(*this) / "features";
    const double width = options.width_mult;
    std::int64_t out = divisible_channels(32 * width);
    first_ = make_conv_norm(features / 0,
                            {.conv = {.in = channels, .out = out, .kernel = 3, .stride = 2},
                             .nonlinearity = Nonlinearity::relu6});
    for (const MobilenetV2Row& row : kMobilenetV2Rows) out = add_row(row, out, width);
    const std::int64_t last = divisible_channels(1280 * std::max(1.0, width));
    last_ = make_conv_norm(features / (blocks_.size() + 1),
                           {.conv = {.in = out, .out = last}, .nonlinearity = Nonlinearity::relu6});
    classifier_ = make_linear(Scope(*this) / "classifier" / 1, last, context.outputs);
    initialize(parameters(), LinearDraw::normal);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = through_blocks(blocks_, first_(input_quantize_(inputs_nchw), mode()));
    x = global_average(last_(x, mode()));
    return classifier_(at::dropout(x, dropout_, training()));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Returns the number of output channels.
  std::int64_t add_row(const MobilenetV2Row& row, std::int64_t in, double width) {
    const std::int64_t out = divisible_channels(static_cast<double>(row.out) * width);
    InvertedResidualPlan plan{
        .in = in, .out = out, .stride = row.stride, .expand_ratio = row.expand_ratio};
    for (std::int64_t i = 0; i < row.blocks; ++i) {
      const Scope scope = Scope(*this) / "features" / (blocks_.size() + 1);
      blocks_.push_back(make_inverted_residual(scope, plan));
      plan.in = out;
      plan.stride = 1;
    }
    return out;
  }

  double dropout_;
  FakeQuantize input_quantize_;
  ConvNorm first_, last_;
  std::vector<MbConv> blocks_;
  Linear classifier_;
};

enum class Squeeze { with, without };

/// A row of the paper's tables 1 and 2.
struct MobilenetV3Row {
  std::int64_t in = 0;
  std::int64_t kernel = 3;
  std::int64_t expanded = 0;
  std::int64_t out = 0;
  Squeeze squeeze = Squeeze::without;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  std::int64_t stride = 1;
};

// Table 1.
constexpr std::array<MobilenetV3Row, 15> kLargeBlocks{
    {{16, 3, 16, 16, Squeeze::without, Nonlinearity::relu, 1},
     {16, 3, 64, 24, Squeeze::without, Nonlinearity::relu, 2},
     {24, 3, 72, 24, Squeeze::without, Nonlinearity::relu, 1},
     {24, 5, 72, 40, Squeeze::with, Nonlinearity::relu, 2},
     {40, 5, 120, 40, Squeeze::with, Nonlinearity::relu, 1},
     {40, 5, 120, 40, Squeeze::with, Nonlinearity::relu, 1},
     {40, 3, 240, 80, Squeeze::without, Nonlinearity::hardswish, 2},
     {80, 3, 200, 80, Squeeze::without, Nonlinearity::hardswish, 1},
     {80, 3, 184, 80, Squeeze::without, Nonlinearity::hardswish, 1},
     {80, 3, 184, 80, Squeeze::without, Nonlinearity::hardswish, 1},
     {80, 3, 480, 112, Squeeze::with, Nonlinearity::hardswish, 1},
     {112, 3, 672, 112, Squeeze::with, Nonlinearity::hardswish, 1},
     {112, 5, 672, 160, Squeeze::with, Nonlinearity::hardswish, 2},
     {160, 5, 960, 160, Squeeze::with, Nonlinearity::hardswish, 1},
     {160, 5, 960, 160, Squeeze::with, Nonlinearity::hardswish, 1}}};

// Table 2.
constexpr std::array<MobilenetV3Row, 11> kSmallBlocks{
    {{16, 3, 16, 16, Squeeze::with, Nonlinearity::relu, 2},
     {16, 3, 72, 24, Squeeze::without, Nonlinearity::relu, 2},
     {24, 3, 88, 24, Squeeze::without, Nonlinearity::relu, 1},
     {24, 5, 96, 40, Squeeze::with, Nonlinearity::hardswish, 2},
     {40, 5, 240, 40, Squeeze::with, Nonlinearity::hardswish, 1},
     {40, 5, 240, 40, Squeeze::with, Nonlinearity::hardswish, 1},
     {40, 5, 120, 48, Squeeze::with, Nonlinearity::hardswish, 1},
     {48, 5, 144, 48, Squeeze::with, Nonlinearity::hardswish, 1},
     {48, 5, 288, 96, Squeeze::with, Nonlinearity::hardswish, 2},
     {96, 5, 576, 96, Squeeze::with, Nonlinearity::hardswish, 1},
     {96, 5, 576, 96, Squeeze::with, Nonlinearity::hardswish, 1}}};

struct MobilenetV3Size {
  std::span<const MobilenetV3Row> blocks;
  std::int64_t last_channels;
};

constexpr NormOptions kMobilenetV3Norm{.eps = 0.001, .momentum = 0.01};

MbConvPlan scaled(const MobilenetV3Row& row, double width) {
  const auto channels = [width](std::int64_t count) {
    return divisible_channels(static_cast<double>(count) * width);
  };
  const std::int64_t expanded = channels(row.expanded);
  const bool squeezes = row.squeeze == Squeeze::with;
  return {.in = channels(row.in),
          .expanded = expanded,
          .out = channels(row.out),
          .kernel = row.kernel,
          .stride = row.stride,
          .squeezed = squeezes ? divisible_channels(static_cast<double>(expanded / 4)) : 0,
          .nonlinearity = row.nonlinearity,
          .squeeze_nonlinearity = Nonlinearity::relu,
          .gate = Gate::hardsigmoid,
          .norm = kMobilenetV3Norm};
}

/// Searching for MobileNetV3 (Howard et al. 2019, arXiv:1905.02244). Names, logits and initial
/// weights for a seed are torchvision's: features.0, the blocks, the last convolution; classifier.0
/// and classifier.3.
class MobilenetV3 final : public LayeredModule {
 public:
  MobilenetV3(const MobilenetV3Size& size, const spec::model::Mobilenet& options,
              const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    if (options.quantize == spec::model::Quantize::int8) train_for_int8();
    input_quantize_ = make_activation_quantize(Scope(*this));
    const Scope features = Scope(*this) / "features";
    const auto conv_norm = [&](std::size_t child, const Conv2dShape& shape) {
      return make_conv_norm(
          features / child,
          {.conv = shape, .nonlinearity = Nonlinearity::hardswish, .norm = kMobilenetV3Norm});
    };
    const double width = options.width_mult;
    std::int64_t out = scaled(size.blocks.front(), width).in;
    first_ = conv_norm(0, {.in = channels, .out = out, .kernel = 3, .stride = 2});
    for (const MobilenetV3Row& row : size.blocks) {
      const MbConvPlan block = scaled(row, width);
      blocks_.push_back(make_mbconv(features / (blocks_.size() + 1), block));
      out = block.out;
    }
    last_ = conv_norm(blocks_.size() + 1, {.in = out, .out = 6 * out});
    const std::int64_t hidden = divisible_channels(static_cast<double>(size.last_channels) * width);
    hidden_ = make_linear(Scope(*this) / "classifier" / 0, 6 * out, hidden);
    classifier_ = make_linear(Scope(*this) / "classifier" / 3, hidden, context.outputs);
    initialize(parameters(), LinearDraw::normal);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = through_blocks(blocks_, first_(input_quantize_(inputs_nchw), mode()));
    x = apply(Nonlinearity::hardswish, hidden_(global_average(last_(x, mode()))));
    return classifier_(at::dropout(x, dropout_, training()));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  double dropout_;
  FakeQuantize input_quantize_;
  ConvNorm first_, last_;
  std::vector<MbConv> blocks_;
  Linear hidden_, classifier_;
};

}  // namespace

void register_model_mobilenet(stage::Catalog& catalog) {
  auto& models = catalog.models;
  models.add_class<spec::model::MobilenetV2, MobilenetV2>("mobilenet_v2");
  models.add_class<spec::model::MobilenetV3Small, MobilenetV3>("mobilenet_v3_small",
                                                               MobilenetV3Size{kSmallBlocks, 1024});
  models.add_class<spec::model::MobilenetV3Large, MobilenetV3>("mobilenet_v3_large",
                                                               MobilenetV3Size{kLargeBlocks, 1280});
}

}  // namespace trainctl::stages
