#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

// torchvision's color functions for uint8 tensors of 1 or 3 channels. They use its float32
// arithmetic, so that the bytes are identical. All may run in place. Functions that need color
// leave single-channel images unchanged.

void adjust_brightness(const ImageView& input, double factor, ImageTarget& output);
void adjust_contrast(const ImageView& input, double factor, ImageTarget& output);
void adjust_saturation(const ImageView& input, double factor, ImageTarget& output);
/// `shift` is in turns of the color circle, -0.5 to 0.5.
void adjust_hue(const ImageView& input, double shift, ImageTarget& output);
/// Writes the luma to every channel.
void to_grayscale(const ImageView& input, ImageTarget& output);

/// Throws Error(config) unless there are 1 or 3 channels.
void check_colors(const ImageShape& image);

// torchvision's pointwise and histogram functions, with identical bytes. All may run in place.

void invert(const ImageView& input, ImageTarget& output);
/// Keeps the upper `bits` bits, 0 to 8.
void posterize(const ImageView& input, int bits, ImageTarget& output);
/// Inverts values that are not below `threshold`.
void solarize(const ImageView& input, double threshold, ImageTarget& output);
/// Stretches each channel to 0 ... 255.
void autocontrast(const ImageView& input, ImageTarget& output);
/// Equalizes the histogram of each channel.
void equalize(const ImageView& input, ImageTarget& output);

/// torchvision's adjust_sharpness: blends with the image smoothed over 3x3 pixels; the border is
/// unchanged. `output` must not alias `input`.
void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output);

}  // namespace trainctl::data
