#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

/// Fills `weights` (an odd number) with a Gaussian that sums to 1.
void gaussian_weights(double sigma, std::span<float> weights);

/// torchvision's gaussian_blur. The border is mirrored, so each kernel must be shorter than twice
/// the image. `scratch` is reused between calls. `output` must not alias `input`.
void gaussian_blur(const ImageView& input, std::span<const float> across,
                   std::span<const float> down, std::vector<float>& scratch, ImageTarget& output);

/// Returns the bytes of `scratch` for a blur with that many weights.
std::uint64_t gaussian_blur_bytes(const ImageShape& shape, std::size_t taps_across,
                                  std::size_t taps_down);

}  // namespace trainctl::data
