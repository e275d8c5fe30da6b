#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"
#include "stages/model/blocks/fused_batch_norm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

/// The shortcut of a residual unit: x itself, a 1x1 convolution (option B of He et al. 2015), or,
/// without parameters, every `stride`-th pixel with `padding` zero channels on both sides (option
/// A).
struct Shortcut {
  std::optional<ConvNorm> projection;
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

enum class Projection { convolution, padding };

/// Initial weights of the last normalization; zeros corresponds to zero_init_residual.
enum class LastNorm { ones, zeros };

struct ResidualPlan {
  std::int64_t in = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  std::int64_t squeeze_ratio = 0;  // 0: without squeeze-and-excitation
  Projection projection = Projection::convolution;
  LastNorm last_norm = LastNorm::ones;
};

/// A unit of a residual network (He et al. 2015): convolutions, optional squeeze-and-excitation,
/// addition of the shortcut, relu.
struct ResidualUnit {
  std::vector<ConvNorm> convs;
  std::optional<SqueezeExcitation> squeeze;
  Shortcut shortcut;
  FakeQuantize output_quantize = {};

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

constexpr std::int64_t kBottleneckExpansion = 4;

/// Adds convN and bnN with the next number N.
void add_conv(ResidualUnit& unit, const Scope& scope, const Conv2dShape& shape,
              Nonlinearity nonlinearity) {
  const std::string number = std::to_string(unit.convs.size() + 1);
  unit.convs.push_back(make_conv_norm(scope / ("conv" + number), scope / ("bn" + number),
                                      {.conv = shape, .nonlinearity = nonlinearity}));
}

Shortcut make_shortcut(const Scope& scope, const ResidualPlan& plan, std::int64_t out) {
  Shortcut shortcut;
  if (plan.stride == 1 && plan.in == out) return shortcut;
  if (plan.projection == Projection::padding) {
    shortcut.stride = plan.stride;
    shortcut.padding = (out - plan.in) / 2;
  } else {
    shortcut.projection = make_conv_norm(
        scope / "downsample", {.conv = {.in = plan.in, .out = out, .stride = plan.stride},
                               .nonlinearity = Nonlinearity::none});
  }
  return shortcut;
}

/// Adds the parts that basic blocks and bottlenecks share after their convolutions.
ResidualUnit finish(ResidualUnit unit, const Scope& scope, const ResidualPlan& plan,
                    std::int64_t out) {
  if (plan.last_norm == LastNorm::zeros) {
    const at::NoGradGuard guard;
    unit.convs.back().norm.weight.zero_();
  }
  if (plan.squeeze_ratio > 0)
    unit.squeeze = make_squeeze_excitation(scope / "se",
                                           {.channels = out, .squeezed = out / plan.squeeze_ratio});
  unit.shortcut = make_shortcut(scope, plan, out);
  unit.output_quantize = make_activation_quantize(scope);
  return unit;
}

at::Tensor Shortcut::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  if (projection) return (*projection)(x_nchw, mode);
  if (stride == 1 && padding == 0) return x_nchw;
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const at::Tensor pixels = x_nchw.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
  const std::array<std::int64_t, 6> pads{0, 0, 0, 0, padding, padding};  // last dimension first
  return at::constant_pad_nd(pixels, pads);
}

at::Tensor ResidualUnit::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  at::Tensor out = x_nchw;
  for (std::size_t i = 0; i + 1 < convs.size(); ++i) out = convs[i](out, mode);
  if (output_quantize.is_on()) {
    out = convs.back()(out, mode);
    if (squeeze) out = (*squeeze)(std::move(out));
    return output_quantize(at::relu(out + shortcut(x_nchw, mode)));
  }
  const Conv2d& conv = convs.back().conv;
  const BatchNorm2d& norm = convs.back().norm;
  out = conv(out);
  if (!squeeze && fuses_batch_norm(norm, out, mode))
    return batch_norm_relu(norm, out, mode, shortcut(x_nchw, mode));
  out = batch_norm(norm, out, mode);
  if (squeeze) out = (*squeeze)(std::move(out));
  out.add_(shortcut(x_nchw, mode));
  return at::relu_(out);
}

/// Two 3x3 convolutions: torchvision's BasicBlock.
ResidualUnit make_basic_block(const Scope& scope, const ResidualPlan& plan) {
  ResidualUnit unit;
  add_conv(unit, scope, {.in = plan.in, .out = plan.width, .kernel = 3, .stride = plan.stride},
           Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = plan.width, .kernel = 3}, Nonlinearity::none);
  return finish(std::move(unit), scope, plan, plan.width);
}

/// 1x1, 3x3 with the stride, 1x1 to four times the width: torchvision's Bottleneck.
ResidualUnit make_bottleneck(const Scope& scope, const ResidualPlan& plan) {
  const std::int64_t out = plan.width * kBottleneckExpansion;
  ResidualUnit unit;
  add_conv(unit, scope, {.in = plan.in, .out = plan.width}, Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = plan.width, .kernel = 3, .stride = plan.stride},
           Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = out}, Nonlinearity::none);
  return finish(std::move(unit), scope, plan, out);
}

constexpr std::int64_t kImageNetWidth = 64;  // channels of the first convolution
constexpr std::int64_t kCifarWidth = 16;

enum class ResidualKind { basic, bottleneck };

struct ResnetSize {
  ResidualKind kind;
  std::array<std::int64_t, 4> depths;  // number of units in each stage
  std::int64_t squeeze_ratio = 0;      // 0: without squeeze-and-excitation
};

/// Deep Residual Learning for Image Recognition (He et al. 2015, arXiv:1512.03385). Names, logits
/// and initial weights for a seed are torchvision's: conv1 and bn1, pooling, layer1 to layer4, fc.
class Resnet final : public LayeredModule {
 public:
  Resnet(const ResnetSize& size, const spec::model::Resnet& options,
         const stage::ModelContext& context) {
    const std::int64_t channels = checked_channels(options, context);
    if (options.quantize == spec::model::Quantize::int8) train_for_int8();
    const Scope scope(*this);
    input_quantize_ = make_activation_quantize(scope);
    stem_ =
        make_conv_norm(scope / "conv1", scope / "bn1",
                       {.conv = {.in = channels, .out = kImageNetWidth, .kernel = 7, .stride = 2}});
    std::int64_t in = kImageNetWidth;
    for (std::size_t stage = 0; stage < size.depths.size(); ++stage)
      in = add_stage(size, options, stage, in);
    fc_ = make_linear(scope / "fc", in, context.outputs);
    initialize(parameters(), LinearDraw::keep);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x =
        at::max_pool2d(stem_(input_quantize_(inputs_nchw), mode()), {3, 3}, {2, 2}, {1, 1});
    return fc_(global_average(through_blocks(units_, std::move(x))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Returns the number of output channels.
  std::int64_t add_stage(const ResnetSize& size, const spec::model::Resnet& options,
                         std::size_t stage, std::int64_t in) {
    const Scope layer = Scope(*this) / ("layer" + std::to_string(stage + 1));
    const bool bottleneck = size.kind == ResidualKind::bottleneck;
    ResidualPlan unit{.in = in,
                      .width = kImageNetWidth << stage,
                      .stride = stage == 0 ? 1 : 2,
                      .squeeze_ratio = size.squeeze_ratio,
                      .last_norm = options.zero_init_residual ? LastNorm::zeros : LastNorm::ones};
    const std::int64_t out = bottleneck ? unit.width * kBottleneckExpansion : unit.width;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size.depths[stage]); ++i) {
      units_.push_back(bottleneck ? make_bottleneck(layer / i, unit)
                                  : make_basic_block(layer / i, unit));
      unit.in = out;
      unit.stride = 1;
    }
    return out;
  }

  FakeQuantize input_quantize_;
  ConvNorm stem_;
  std::vector<ResidualUnit> units_;
  Linear fc_;
};

constexpr std::size_t kCifarStages = 3;

/// conv1 and bn1, layer1 to layer3, fc. Names and initial weights for a seed are those of
/// torchvision's ResNet with this shape.
class ResnetCifar final : public LayeredModule {
 public:
  ResnetCifar(const spec::model::ResnetCifar& options, const stage::ModelContext& context) {
    const std::int64_t channels = checked_channels(options, context);
    if (options.quantize == spec::model::Quantize::int8) train_for_int8();
    const Scope scope(*this);
    input_quantize_ = make_activation_quantize(scope);
    stem_ = make_conv_norm(scope / "conv1", scope / "bn1",
                           {.conv = {.in = channels, .out = kCifarWidth, .kernel = 3}});
    const auto units = static_cast<std::size_t>((options.depth - 2) / 6);
    for (std::size_t stage = 0; stage < kCifarStages; ++stage) add_stage(options, stage, units);
    fc_ = make_linear(scope / "fc", kCifarWidth << (kCifarStages - 1), context.outputs);
    initialize(parameters(), LinearDraw::keep);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = stem_(input_quantize_(inputs_nchw), mode());
    return fc_(global_average(through_blocks(units_, std::move(x))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  void add_stage(const spec::model::ResnetCifar& options, std::size_t stage, std::size_t units) {
    using spec::model::CifarShortcut;
    const Scope layer = Scope(*this) / ("layer" + std::to_string(stage + 1));
    const std::int64_t width = kCifarWidth << stage;
    const bool grows = stage > 0;
    for (std::size_t i = 0; i < units; ++i) {
      const bool first = grows && i == 0;
      units_.push_back(make_basic_block(
          layer / i,
          {.in = first ? width / 2 : width,
           .width = width,
           .stride = first ? 2 : 1,
           .projection = options.shortcut == CifarShortcut::a ? Projection::padding
                                                              : Projection::convolution}));
    }
  }

  FakeQuantize input_quantize_;
  ConvNorm stem_;
  std::vector<ResidualUnit> units_;
  Linear fc_;
};

}  // namespace

void register_model_resnet(stage::Catalog& catalog) {
  auto& models = catalog.models;
  // Table 1 of the paper, and SE-ResNet-50.
  models.add_class<spec::model::Resnet18, Resnet>("resnet18",
                                                  ResnetSize{ResidualKind::basic, {2, 2, 2, 2}});
  models.add_class<spec::model::Resnet34, Resnet>("resnet34",
                                                  ResnetSize{ResidualKind::basic, {3, 4, 6, 3}});
  models.add_class<spec::model::Resnet50, Resnet>(
      "resnet50", ResnetSize{ResidualKind::bottleneck, {3, 4, 6, 3}});
  models.add_class<spec::model::Resnet101, Resnet>(
      "resnet101", ResnetSize{ResidualKind::bottleneck, {3, 4, 23, 3}});
  models.add_class<spec::model::Resnet152, Resnet>(
      "resnet152", ResnetSize{ResidualKind::bottleneck, {3, 8, 36, 3}});
  models.add_class<spec::model::SeResnet50, Resnet>(
      "se_resnet50", ResnetSize{ResidualKind::bottleneck, {3, 4, 6, 3}, 16});
  models.add_class<spec::model::ResnetCifar, ResnetCifar>("resnet_cifar");
}

}  // namespace trainctl::stages
