#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

// torchvision's color functions on uint8 tensors of 1 or 3 channels, in its float32 arithmetic, so
// that the bytes are the same. All of them work in place. What needs colors leaves an image of one
// channel as it is.

void adjust_brightness(const ImageView& input, double factor, ImageTarget& output);
void adjust_contrast(const ImageView& input, double factor, ImageTarget& output);
void adjust_saturation(const ImageView& input, double factor, ImageTarget& output);
/// `shift` in turns of the color circle, -0.5 to 0.5.
void adjust_hue(const ImageView& input, double shift, ImageTarget& output);
/// The luma in every channel.
void to_grayscale(const ImageView& input, ImageTarget& output);

/// Throws Error(config) unless there are 1 or 3 channels.
void check_colors(const ImageShape& image);

// torchvision's functions of the values alone, byte for byte. All of them work in place.

void invert(const ImageView& input, ImageTarget& output);
/// Keeps the upper `bits` bits, 0 to 8.
void posterize(const ImageView& input, int bits, ImageTarget& output);
/// Inverts what is not below `threshold`.
void solarize(const ImageView& input, double threshold, ImageTarget& output);
/// Stretches each channel to 0 ... 255.
void autocontrast(const ImageView& input, ImageTarget& output);
/// Evens out the histogram of each channel.
void equalize(const ImageView& input, ImageTarget& output);

/// torchvision's adjust_sharpness: a blend with the image smoothed over 3x3 pixels, whose border
/// stays as it is. `output` must lie elsewhere.
void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output);

}  // namespace trainctl::data
