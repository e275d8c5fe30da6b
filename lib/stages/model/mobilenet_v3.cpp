#include "stages/model/mobilenet_v3.hpp"

#include "stages/model/blocks/channels.hpp"
#include "stages/model/blocks/global_average.hpp"
#include "stages/model/blocks/image_input.hpp"
#include "stages/model/blocks/initialise.hpp"
#include "stages/model/blocks/mbconv.hpp"

#include <ATen/ops/dropout.h>

namespace trainctl::stages {
namespace {

constexpr NormOptions kNorm{.eps = 0.001, .momentum = 0.01};

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
          .norm = kNorm};
}

/// features.0, the blocks, the last convolution; classifier.0 and classifier.3.
class MobilenetV3 final : public LayeredModule {
 public:
  MobilenetV3(const MobilenetV3Plan& plan, const spec::model::Mobilenet& options,
              const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    const Scope features = Scope(*this) / "features";
    const auto conv_norm = [&](std::size_t child, const Conv2dShape& shape) {
      return make_conv_norm(
          features / child,
          {.conv = shape, .nonlinearity = Nonlinearity::hardswish, .norm = kNorm});
    };
    const double width = options.width_mult;
    std::int64_t out = scaled(plan.blocks.front(), width).in;
    first_ = conv_norm(0, {.in = channels, .out = out, .kernel = 3, .stride = 2});
    for (const MobilenetV3Row& row : plan.blocks) {
      const MbConvPlan block = scaled(row, width);
      blocks_.push_back(make_mbconv(features / (blocks_.size() + 1), block));
      out = block.out;
    }
    last_ = conv_norm(blocks_.size() + 1, {.in = out, .out = 6 * out});
    const std::int64_t hidden = divisible_channels(static_cast<double>(plan.last_channels) * width);
    hidden_ = add_linear("classifier.0", 6 * out, hidden);
    classifier_ = add_linear("classifier.3", hidden, context.outputs);
    initialise(parameters(), LinearDraw::normal);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = through_blocks(blocks_, first_(inputs_nchw, mode()));
    x = apply(Nonlinearity::hardswish, hidden_(global_average(last_(x, mode()))));
    return classifier_(at::dropout(x, dropout_, training()));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  double dropout_;
  ConvNorm first_, last_;
  std::vector<MbConv> blocks_;
  Linear hidden_, classifier_;
};

}  // namespace

std::unique_ptr<stage::Model> make_mobilenet_v3(const MobilenetV3Plan& plan,
                                                const spec::model::Mobilenet& options,
                                                const stage::ModelContext& context) {
  return std::make_unique<MobilenetV3>(plan, options, context);
}

}  // namespace trainctl::stages
