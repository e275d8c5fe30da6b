#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::stages {
namespace {

/// Two 3x3 convolutions, each with ReLU and, by option, a batch norm between.
struct DoubleConv {
  std::array<ConvNorm, 2> convs;
  bool normalizes = true;

  [[nodiscard]] at::Tensor operator()(at::Tensor x_nchw, stage::RunMode mode) const {
    for (const ConvNorm& one : convs)
      x_nchw = normalizes ? one(x_nchw, mode) : one.conv(x_nchw).relu_();
    return x_nchw;
  }
};

struct DoubleConvPlan {
  std::int64_t in = 0;
  std::int64_t inner = 0;
  std::int64_t out = 0;
  bool normalizes = true;
};

DoubleConv make_double_conv(const Scope& scope, const DoubleConvPlan& plan) {
  const Scope layers = scope / "double_conv";
  DoubleConv block;
  block.normalizes = plan.normalizes;
  std::size_t index = 0;  // of a layer in the list, which also counts the ReLUs
  for (std::size_t i = 0; i < 2; ++i) {
    ConvNorm& one = block.convs.at(i);
    const std::int64_t out = i == 0 ? plan.inner : plan.out;
    one.nonlinearity = Nonlinearity::relu;
    one.conv =
        make_conv2d(layers / index++, {.in = i == 0 ? plan.in : plan.inner,
                                       .out = out,
                                       .kernel = 3,
                                       .bias = plan.normalizes ? Bias::without : Bias::with});
    if (plan.normalizes) one.norm = make_batch_norm2d(layers / index++, out);
    ++index;
  }
  return block;
}

/// Enlarges the output of the level below and reads it together with that of the same level.
struct UpBlock {
  std::optional<ConvTranspose2d> up;  // nullopt: bilinear interpolation
  DoubleConv conv;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& below, const at::Tensor& skipped,
                                      stage::RunMode mode) const {
    const std::array<std::int64_t, 2> doubled{2 * below.size(2), 2 * below.size(3)};
    at::Tensor x = up ? (*up)(below) : at::upsample_bilinear2d(below, doubled, kAlignCorners);
    const std::int64_t rows = skipped.size(2) - x.size(2);
    const std::int64_t columns = skipped.size(3) - x.size(3);
    if (rows != 0 || columns != 0) {  // the pooling has dropped a row or column
      const std::array<std::int64_t, 4> pads{columns / 2, columns - columns / 2, rows / 2,
                                             rows - rows / 2};
      x = at::constant_pad_nd(x, pads, 0);
    }
    return conv(at::cat({skipped, x}, 1), mode);
  }

  static constexpr bool kAlignCorners = true;
};

class Unet final : public LayeredModule {
 public:
  Unet(const spec::model::Unet& options, const stage::ModelContext& context) {
    const std::int64_t in = checked_channels(options, context);
    const Scope scope(*this);
    const bool bilinear = options.upsampling == spec::model::Upsampling::bilinear;
    // Interpolation keeps the number of channels, which transposed convolutions halve.
    const std::int64_t factor = bilinear ? 2 : 1;
    const auto double_conv = [&](const Scope& at, std::int64_t from, std::int64_t inner,
                                 std::int64_t to) {
      return make_double_conv(at, {from, inner, to, options.batch_norm});
    };
    std::int64_t width = options.channels;
    levels_.push_back(double_conv(scope / "inc", in, width, width));
    for (std::int64_t i = 1; i <= options.depth; ++i) {
      const std::int64_t out = 2 * width / (i == options.depth ? factor : 1);
      const Scope down = scope / ("down" + std::to_string(i)) / "maxpool_conv" / 1;
      levels_.push_back(double_conv(down, width, out, out));
      width *= 2;
    }
    for (std::int64_t i = 1; i <= options.depth; ++i) {
      const Scope at = scope / ("up" + std::to_string(i));
      UpBlock block;
      if (!bilinear) {
        block.up = make_conv_transpose2d(
            at / "up",
            {.in = width, .out = width / 2, .kernel = 2, .stride = 2, .bias = Bias::with});
      }
      const std::int64_t out = width / 2 / (i == options.depth ? 1 : factor);
      block.conv = double_conv(at / "conv", width, bilinear ? width / 2 : out, out);
      ups_.push_back(std::move(block));
      width /= 2;
    }
    out_ = make_conv2d(scope / "outc" / "conv",
                       {.in = options.channels, .out = context.outputs, .bias = Bias::with});
  }

  /// Returns logits [N, outputs, H, W].
  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    std::vector<at::Tensor> levels{levels_[0](inputs_nchw, mode())};
    for (std::size_t i = 1; i < levels_.size(); ++i)
      levels.push_back(levels_[i](at::max_pool2d(levels.back(), 2), mode()));
    at::Tensor x = levels.back();
    for (const UpBlock& up : ups_) {
      levels.pop_back();
      x = up(x, levels.back(), mode());
    }
    return out_(x);
  }

 private:
  std::vector<DoubleConv> levels_;  // from the whole image to the smallest
  std::vector<UpBlock> ups_;
  Conv2d out_;
};

}  // namespace

void register_model_unet(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Unet, Unet>("unet");
}

}  // namespace trainctl::stages
