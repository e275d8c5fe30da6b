#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

// torchvision's colour functions on uint8 tensors of 1 or 3 channels, in its float32 arithmetic, so
// that the bytes are the same. All of them work in place. What needs colours leaves an image of one
// channel as it is.

void adjust_brightness(const ImageView& input, double factor, ImageTarget& output);
void adjust_contrast(const ImageView& input, double factor, ImageTarget& output);
void adjust_saturation(const ImageView& input, double factor, ImageTarget& output);
/// `shift` in turns of the colour circle, -0.5 to 0.5.
void adjust_hue(const ImageView& input, double shift, ImageTarget& output);
/// The luma in every channel.
void to_grayscale(const ImageView& input, ImageTarget& output);

/// Throws Error(config) unless there are 1 or 3 channels.
void check_colors(const ImageShape& image);

}  // namespace trainctl::data
