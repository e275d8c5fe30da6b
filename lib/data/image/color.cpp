#include "data/image/color.hpp"

#include "base/error.hpp"
#include "data/image/blend_rows.hpp"
#include "data/image/pixel_math.hpp"
#include "data/image/table.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace trainctl::data {
namespace {

const BlendKernels& kernels() {
  static const BlendKernels& fastest = blend_kernels().back();
  return fastest;
}

/// Calls `change(from, to)` for each pixel.
template <class Change>
void each_pixel(const ImageView& input, ImageTarget& output, Change&& change) {
  const auto [height, width, channels] = input.shape;
  output.resize(input.shape);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = input.row(y);
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < width; ++x, from += channels, to += channels) change(from, to);
  }
}

float mean_luma(const ImageView& input) {
  const auto [height, width, channels] = input.shape;
  std::int64_t sum = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* row = input.row(y);
    sum += channels == 1 ? std::accumulate(row, row + width, std::int64_t{0})
                         : kernels().sum_of_luma(row, width);
  }
  return static_cast<float>(sum) / static_cast<float>(height * width);
}

void keep(const ImageView& input, ImageTarget& output) {
  if (output.shape() != input.shape || output.view().pixels != input.pixels) output.copy(input);
}

struct Hsv {
  float h, s, v;
};

Hsv to_hsv(const std::uint8_t* pixel) {
  constexpr auto kScale = static_cast<float>(1.0 / 255);
  const float r = static_cast<float>(pixel[0]) * kScale;
  const float g = static_cast<float>(pixel[1]) * kScale;
  const float b = static_cast<float>(pixel[2]) * kScale;
  const float most = std::max({r, g, b});
  const float range = most - std::min({r, g, b});
  if (range == 0) return {0, 0, most};
  const float rc = (most - r) / range;
  const float gc = (most - g) / range;
  const float bc = (most - b) / range;
  const float sixths = most == r ? bc - gc : most == g ? (rc + 2.0F) - bc : (gc + 4.0F) - rc;
  const float turns = sixths * static_cast<float>(1.0 / 6) + 1.0F;  // from 5/6 to 11/6
  return {turns < 1 ? turns : turns - 1, range / most, most};
}

void from_hsv(const Hsv& color, std::uint8_t* pixel) {
  const float sixths = color.h * 6.0F;
  const int sector = static_cast<int>(sixths);
  const float part = color.s * (sixths - static_cast<float>(sector));
  const float rest = 1.0F - color.s;
  const auto level = [&](float share) {
    return static_cast<std::uint8_t>(std::clamp(share * color.v, 0.0F, 1.0F) *
                                     static_cast<float>(255 + 1.0 - 1e-3));
  };
  const auto v = static_cast<std::uint8_t>(color.v * static_cast<float>(255 + 1.0 - 1e-3));
  const std::uint8_t p = level(rest);
  const std::uint8_t q = level(1.0F - part);
  const std::uint8_t t = level(part + rest);
  const auto set = [&](std::uint8_t r, std::uint8_t g, std::uint8_t b) {
    pixel[0] = r;
    pixel[1] = g;
    pixel[2] = b;
  };
  switch (sector % 6) {
    case 0: return set(v, t, p);
    case 1: return set(q, v, p);
    case 2: return set(p, v, t);
    case 3: return set(p, q, v);
    case 4: return set(t, p, v);
    default: return set(v, p, q);
  }
}

}  // namespace

void check_colors(const ImageShape& image) {
  ENSURE(config, image.channels == 1 || image.channels == 3,
         "the images have {} channels, and colours need 1 (grey) or 3 (red, green, blue); remove "
         "this transform",
         image.channels);
}

void adjust_brightness(const ImageView& input, double factor, ImageTarget& output) {
  const auto scale = static_cast<float>(factor);
  apply_table(input,
              make_table([&](int value) { return clamped(static_cast<float>(value) * scale); }),
              output);
}

void adjust_contrast(const ImageView& input, double factor, ImageTarget& output) {
  const Blend blend(factor);
  const float mean = mean_luma(input);
  const auto blend_value = [&](int value) {
    return blended(static_cast<std::uint8_t>(value), mean, blend);
  };
  apply_table(input, make_table(blend_value), output);
}

void adjust_saturation(const ImageView& input, double factor, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  const Blend blend(factor);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < input.shape.height; ++y)
    kernels().saturate(input.row(y), input.shape.width, blend, output.row(y));
}

void adjust_hue(const ImageView& input, double shift, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  const auto turns = static_cast<float>(shift);
  each_pixel(input, output, [&](const std::uint8_t* from, std::uint8_t* to) {
    Hsv color = to_hsv(from);
    color.h += turns;
    if (color.h >= 1) color.h -= 1;
    if (color.h < 0) color.h += 1;
    from_hsv(color, to);
  });
}

void to_grayscale(const ImageView& input, ImageTarget& output) {
  if (input.shape.channels == 1) return keep(input, output);
  output.resize(input.shape);
  for (std::int64_t y = 0; y < input.shape.height; ++y)
    kernels().gray(input.row(y), input.shape.width, output.row(y));
}

}  // namespace trainctl::data
