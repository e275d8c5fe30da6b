#pragma once

#include "data/image/warp.hpp"
#include "spec/options/transform.hpp"

#include <span>

namespace trainctl::data {

/// The operations of torchvision's AutoAugment family.
enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert
};
/// Those that TrivialAugmentWide and RandAugment choose from: all but invert.
constexpr std::int64_t kChosenOps = 14;

/// Whether an operation has a magnitude, and whether that goes both ways.
enum class MagnitudeKind { none, plain, either_sign };
MagnitudeKind magnitude_kind(AugmentOp op);

/// Which of torchvision's tables of magnitudes: that of AutoAugment and RandAugment, or that of
/// TrivialAugmentWide.
enum class AugmentSpace { standard, wide };

/// Entry `bin` of `bins` (2 or more), in torchvision's float32.
double magnitude(AugmentSpace space, AugmentOp op, std::array<std::int64_t, 2> bin_of_bins,
                 const ImageShape& image);

/// One operation, with its magnitude where it has one. `output` must lie elsewhere.
void augment(const ImageView& input, AugmentOp op, double magnitude, const Sampling& sampling,
             ImageTarget& output);

constexpr std::int64_t kAutoAugmentBins = 10;

struct PolicyStep {
  AugmentOp op;
  double probability;
  int bin;  // of kAutoAugmentBins
};
using AutoPolicy = std::array<PolicyStep, 2>;

/// One of them is drawn for each image.
std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy);

}  // namespace trainctl::data
