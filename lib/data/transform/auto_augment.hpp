#pragma once

#include "data/image/warp.hpp"
#include "spec/options/transform.hpp"

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
/// Number of operations that TrivialAugmentWide and RandAugment draw from: all except invert.
constexpr std::int64_t kChosenOps = 14;

/// Whether an operation has a magnitude, and whether the magnitude may be negative.
enum class MagnitudeKind { none, plain, either_sign };
MagnitudeKind magnitude_kind(AugmentOp op);

/// The magnitude tables of torchvision: `standard` for AutoAugment and RandAugment, `wide` for
/// TrivialAugmentWide.
enum class AugmentSpace { standard, wide };

/// Returns entry `bin` of `bins` (at least 2), computed in float32 as in torchvision.
double magnitude(AugmentSpace space, AugmentOp op, std::array<std::int64_t, 2> bin_of_bins,
                 const ImageShape& image);

/// Applies one operation, with its magnitude if it has one. `output` must not alias `input`.
void augment(const ImageView& input, AugmentOp op, double magnitude, const Sampling& sampling,
             ImageTarget& output);

constexpr std::int64_t kAutoAugmentBins = 10;

/// One operation of an AutoAugment policy.
struct PolicyStep {
  AugmentOp op;
  double probability;
  int bin;  // of kAutoAugmentBins
};
using AutoPolicy = std::array<PolicyStep, 2>;

/// Returns the policies, of which one is drawn per image.
std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy);

}  // namespace trainctl::data
