#include "spec/model/mobilenet_v2.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/channels.hpp"
#include "stages/model/blocks/global_average.hpp"
#include "stages/model/blocks/image_input.hpp"
#include "stages/model/blocks/initialise.hpp"
#include "stages/model/blocks/inverted_residual.hpp"

#include <ATen/ops/dropout.h>

#include <algorithm>
#include <array>
#include <vector>

namespace trainctl::stages {
namespace {

/// Table 2 of the paper.
struct Row {
  std::int64_t expand_ratio, out, blocks, stride;
};
constexpr std::array<Row, 7> kRows{{{1, 16, 1, 1},
                                    {6, 24, 2, 2},
                                    {6, 32, 3, 2},
                                    {6, 64, 4, 2},
                                    {6, 96, 3, 1},
                                    {6, 160, 3, 2},
                                    {6, 320, 1, 1}}};

/// Inverted Residuals and Linear Bottlenecks (Sandler et al. 2018, arXiv:1801.04381): features.0,
/// the blocks, the last convolution; classifier.1.
class MobilenetV2 final : public LayeredModule {
 public:
  MobilenetV2(const spec::model::MobilenetV2& options, const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    const Scope features = Scope(*this) / "features";
    const double width = options.width_mult;
    std::int64_t out = divisible_channels(32 * width);
    first_ = make_conv_norm(features / 0,
                            {.conv = {.in = channels, .out = out, .kernel = 3, .stride = 2},
                             .nonlinearity = Nonlinearity::relu6});
    for (const Row& row : kRows) out = add_row(row, out, width);
    const std::int64_t last = divisible_channels(1280 * std::max(1.0, width));
    last_ = make_conv_norm(features / (blocks_.size() + 1),
                           {.conv = {.in = out, .out = last}, .nonlinearity = Nonlinearity::relu6});
    classifier_ = add_linear("classifier.1", last, context.outputs);
    initialise(parameters(), LinearDraw::normal);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = through_blocks(blocks_, first_(inputs_nchw, mode()));
    x = global_average(last_(x, mode()));
    return classifier_(at::dropout(x, dropout_, training()));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Returns the channels behind it.
  std::int64_t add_row(const Row& row, std::int64_t in, double width) {
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
  ConvNorm first_, last_;
  std::vector<InvertedResidual> blocks_;
  Linear classifier_;
};

}  // namespace

void register_model_mobilenet_v2(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::MobilenetV2>(
      "mobilenet_v2", [](const auto& options, const auto& context) {
        return std::make_unique<MobilenetV2>(options, context);
      });
}

}  // namespace trainctl::stages
