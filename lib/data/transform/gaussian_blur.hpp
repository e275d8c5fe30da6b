#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

/// Weights of a Gauss curve over `size` pixels (odd), which add up to 1.
void gaussian_weights(double sigma, std::span<float> weights);

/// torchvision's gaussian_blur; the border is mirrored, so each kernel is shorter than twice the
/// image. `scratch` keeps rows between calls. `output` must lie elsewhere.
void gaussian_blur(const ImageView& input, std::span<const float> across,
                   std::span<const float> down, std::vector<float>& scratch, ImageTarget& output);

/// Bytes of `scratch` behind a blur with so many weights across and down.
std::uint64_t gaussian_blur_bytes(const ImageShape& shape, std::size_t taps_across,
                                  std::size_t taps_down);

}  // namespace trainctl::data
