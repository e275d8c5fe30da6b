#pragma once

#include "stages/model/blocks/conv_norm.hpp"
#include "stages/model/blocks/squeeze_excitation.hpp"

#include <optional>
#include <vector>

namespace trainctl::stages {

/// What leads around a residual unit: x itself, a 1x1 convolution (option B of He et al. 2015), or,
/// without parameters, every `stride`-th pixel with `padding` channels of zeros on both sides
/// (option A).
struct Shortcut {
  std::optional<ConvNorm> projection;
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

enum class Projection { convolution, padding };
enum class LastNorm {
  ones,
  zeros
};  // weights of the last normalisation: zeros is zero_init_residual

struct ResidualPlan {
  std::int64_t in = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  std::int64_t squeeze_ratio = 0;  // 0: without squeeze-and-excitation
  Projection projection = Projection::convolution;
  LastNorm last_norm = LastNorm::ones;
};

/// The unit of a residual network (He et al. 2015): convolutions, perhaps squeeze-and-excitation,
/// the shortcut added, relu.
struct ResidualUnit {
  std::vector<ConvNorm> convs;
  std::optional<SqueezeExcitation> squeeze;
  Shortcut shortcut;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// Two 3x3 convolutions: torchvision's BasicBlock.
ResidualUnit make_basic_block(const Scope& scope, const ResidualPlan& plan);
/// 1x1, 3x3 with the stride, 1x1 to four times the width: torchvision's Bottleneck.
ResidualUnit make_bottleneck(const Scope& scope, const ResidualPlan& plan);
constexpr std::int64_t kBottleneckExpansion = 4;

}  // namespace trainctl::stages
