#include "stages/model/efficientnet.hpp"

#include "stages/model/blocks/channels.hpp"
#include "stages/model/blocks/global_average.hpp"
#include "stages/model/blocks/image_input.hpp"
#include "stages/model/blocks/initialise.hpp"
#include "stages/model/blocks/mbconv.hpp"

#include <ATen/ops/dropout.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace trainctl::stages {
namespace {

/// Table 1 of the paper, for B0.
struct Row {
  std::int64_t expand_ratio, kernel, stride, in, out, blocks;
};
constexpr std::array<Row, 7> kRows{{{1, 3, 1, 32, 16, 1},
                                    {6, 3, 2, 16, 24, 2},
                                    {6, 5, 2, 24, 40, 2},
                                    {6, 3, 2, 40, 80, 3},
                                    {6, 5, 1, 80, 112, 3},
                                    {6, 5, 2, 112, 192, 4},
                                    {6, 3, 1, 192, 320, 1}}};

/// The blocks of each row, in width and depth of the plan.
std::array<std::vector<MbConvPlan>, kRows.size()> scaled_rows(const EfficientnetPlan& plan) {
  const auto channels = [&](std::int64_t count) {
    return divisible_channels(static_cast<double>(count) * plan.width);
  };
  std::array<std::vector<MbConvPlan>, kRows.size()> rows;
  for (std::size_t r = 0; r < kRows.size(); ++r) {
    const Row& row = kRows[r];
    const auto blocks =
        static_cast<std::size_t>(std::ceil(static_cast<double>(row.blocks) * plan.depth));
    std::int64_t in = channels(row.in);
    for (std::size_t i = 0; i < blocks; ++i) {
      rows[r].push_back({.in = in,
                         .expanded = divisible_channels(static_cast<double>(in * row.expand_ratio)),
                         .out = channels(row.out),
                         .kernel = row.kernel,
                         .stride = i == 0 ? row.stride : 1,
                         .squeezed = std::max<std::int64_t>(1, in / 4)});
      in = rows[r].back().out;
    }
  }
  return rows;
}

/// features.0, seven rows of blocks, the last convolution; classifier.1.
class Efficientnet final : public LayeredModule {
 public:
  Efficientnet(const EfficientnetPlan& plan, const spec::model::Efficientnet& options,
               const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    const auto rows = scaled_rows(plan);
    const Scope features = Scope(*this) / "features";
    const auto conv_norm = [&](std::size_t child, const Conv2dShape& shape) {
      return make_conv_norm(features / child, {.conv = shape, .nonlinearity = Nonlinearity::silu});
    };
    first_ =
        conv_norm(0, {.in = channels, .out = rows.front().front().in, .kernel = 3, .stride = 2});
    std::size_t total = 0;
    for (const auto& row : rows) total += row.size();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t i = 0; i < rows[r].size(); ++i) {
        MbConvPlan block = rows[r][i];
        block.stochastic_depth = options.stochastic_depth_prob *
                                 static_cast<double>(blocks_.size()) / static_cast<double>(total);
        blocks_.push_back(make_mbconv(features / (r + 1) / i, block));
      }
    }
    const std::int64_t out = rows.back().back().out;
    last_ = conv_norm(rows.size() + 1, {.in = out, .out = 4 * out});
    classifier_ = add_linear("classifier.1", 4 * out, context.outputs);
    initialise(parameters(), LinearDraw::uniform);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = through_blocks(blocks_, first_(inputs_nchw, mode()));
    x = global_average(last_(x, mode()));
    return classifier_(at::dropout(x, dropout_, training()));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  double dropout_;
  ConvNorm first_, last_;
  std::vector<MbConv> blocks_;
  Linear classifier_;
};

}  // namespace

std::unique_ptr<stage::Model> make_efficientnet(const EfficientnetPlan& plan,
                                                const spec::model::Efficientnet& options,
                                                const stage::ModelContext& context) {
  return std::make_unique<Efficientnet>(plan, options, context);
}

}  // namespace trainctl::stages
