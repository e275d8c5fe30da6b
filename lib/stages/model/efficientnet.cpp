#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"

#include <ATen/ops/dropout.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace trainctl::stages {
namespace {

/// Table 1 of the paper, for B0.
struct EfficientnetRow {
  std::int64_t expand_ratio, kernel, stride, in, out, blocks;
};

constexpr std::array<EfficientnetRow, 7> kEfficientnetRows{{{1, 3, 1, 32, 16, 1},
                                                            {6, 3, 2, 16, 24, 2},
                                                            {6, 5, 2, 24, 40, 2},
                                                            {6, 3, 2, 40, 80, 3},
                                                            {6, 5, 1, 80, 112, 3},
                                                            {6, 5, 2, 112, 192, 4},
                                                            {6, 3, 1, 192, 320, 1}}};

struct EfficientnetSize {
  double width;  // scale factors relative to B0
  double depth;
};

/// Returns the blocks of each row, scaled to the width and depth of the model.
std::array<std::vector<MbConvPlan>, kEfficientnetRows.size()> scaled_rows(
    const EfficientnetSize& size) {
  const auto channels = [&](std::int64_t count) {
    return divisible_channels(static_cast<double>(count) * size.width);
  };
  std::array<std::vector<MbConvPlan>, kEfficientnetRows.size()> rows;
  for (std::size_t r = 0; r < kEfficientnetRows.size(); ++r) {
    const EfficientnetRow& row = kEfficientnetRows[r];
    const auto blocks =
        static_cast<std::size_t>(std::ceil(static_cast<double>(row.blocks) * size.depth));
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

/// EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks (Tan & Le 2019,
/// arXiv:1905.11946). Names, logits and initial weights for a seed are torchvision's: features.0,
/// seven rows of blocks, the last convolution; classifier.1.
class Efficientnet final : public LayeredModule {
 public:
  Efficientnet(const EfficientnetSize& size, const spec::model::Efficientnet& options,
               const stage::ModelContext& context)
      : dropout_(options.dropout) {
    const std::int64_t channels = checked_channels(options, context);
    const auto rows = scaled_rows(size);
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
    classifier_ = make_linear(Scope(*this) / "classifier" / 1, 4 * out, context.outputs);
    initialize(parameters(), LinearDraw::uniform);
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

void register_model_efficientnet(stage::Catalog& catalog) {
  auto& models = catalog.models;
  models.add_class<spec::model::EfficientnetB0, Efficientnet>("efficientnet_b0",
                                                              EfficientnetSize{1, 1});
  models.add_class<spec::model::EfficientnetB1, Efficientnet>("efficientnet_b1",
                                                              EfficientnetSize{1, 1.1});
  models.add_class<spec::model::EfficientnetB2, Efficientnet>("efficientnet_b2",
                                                              EfficientnetSize{1.1, 1.2});
  models.add_class<spec::model::EfficientnetB3, Efficientnet>("efficientnet_b3",
                                                              EfficientnetSize{1.2, 1.4});
  models.add_class<spec::model::EfficientnetB4, Efficientnet>("efficientnet_b4",
                                                              EfficientnetSize{1.4, 1.8});
}

}  // namespace trainctl::stages
