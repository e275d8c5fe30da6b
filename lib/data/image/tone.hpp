#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

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

}  // namespace trainctl::data
