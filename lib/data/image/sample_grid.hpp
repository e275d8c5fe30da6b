#pragma once

#include "data/image/round.hpp"
#include "data/image/warp.hpp"

#include <algorithm>
#include <cstdint>

namespace trainctl::data {

// torch's grid_sample with zeros outside and align_corners=False, for one image, in its float32
// arithmetic. A grid is a function (x, y) -> Place in -1 ... 1 across the input.

struct Place {
  float x = 0;
  float y = 0;
};

/// From a place of the grid to pixels.
inline float to_pixels(float place, float extent) { return (place + 1.0F) * (extent / 2) - 0.5F; }

/// The coordinate, or one that is outside too but small enough to be rounded; also for what is not
/// a number.
inline float near_image(float at, std::int64_t extent) {
  const auto beyond = static_cast<float>(extent + 9);
  return at > -9.0F ? (at < beyond ? at : beyond) : -9.0F;
}

/// The largest whole number that is not above a coordinate near the image.
inline std::int64_t floor_of(float near) {
  const auto towards_zero = static_cast<std::int64_t>(near);
  return near < static_cast<float>(towards_zero) ? towards_zero - 1 : towards_zero;
}

inline void sample_nearest(const ImageView& input, const Place& at, const Sampling& sampling,
                           std::uint8_t* to) {
  const auto [height, width, channels] = input.shape;
  const auto x = static_cast<std::int64_t>(round_half_even(near_image(at.x, width)));
  const auto y = static_cast<std::int64_t>(round_half_even(near_image(at.y, height)));
  if (x >= 0 && x < width && y >= 0 && y < height) {
    const std::uint8_t* from = input.row(y) + x * channels;
    for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c];
  } else {
    for (std::int64_t c = 0; c < channels; ++c)
      to[c] = sampling.fill ? (*sampling.fill)[c] : std::uint8_t{0};
  }
}

inline void sample_bilinear(const ImageView& input, const Place& at, const Sampling& sampling,
                            std::uint8_t* to) {
  const auto [height, width, channels] = input.shape;
  const float x = near_image(at.x, width);
  const float y = near_image(at.y, height);
  const std::int64_t left = floor_of(x);
  const std::int64_t top = floor_of(y);
  const float east = x - static_cast<float>(left);
  const float south = y - static_cast<float>(top);
  const float west = 1.0F - east;
  const float north = 1.0F - south;
  const auto inside = [&](std::int64_t dx, std::int64_t dy) {
    return left + dx >= 0 && left + dx < width && top + dy >= 0 && top + dy < height ? 1.0F : 0.0F;
  };
  const float weights[4] = {west * north * inside(0, 0), east * north * inside(1, 0),
                            west * south * inside(0, 1), east * south * inside(1, 1)};
  const float mask = weights[0] + weights[1] + weights[2] + weights[3];
  // A pixel from outside has no weight; any one from inside stands for it.
  const auto column = [&, last = width - 1](std::int64_t i) {
    return std::clamp<std::int64_t>(i, 0, last) * channels;
  };
  const std::uint8_t* above = input.row(std::clamp<std::int64_t>(top, 0, height - 1));
  const std::uint8_t* below = input.row(std::clamp<std::int64_t>(top + 1, 0, height - 1));
  const std::uint8_t* pixels[4] = {above + column(left), above + column(left + 1),
                                   below + column(left), below + column(left + 1)};
  for (std::int64_t c = 0; c < channels; ++c) {
    float value = static_cast<float>(pixels[0][c]) * weights[0] +
                  static_cast<float>(pixels[1][c]) * weights[1] +
                  static_cast<float>(pixels[2][c]) * weights[2] +
                  static_cast<float>(pixels[3][c]) * weights[3];
    // Edges fade into black first and into the fill then: torchvision's own order.
    if (sampling.fill) {
      const auto fill = static_cast<float>((*sampling.fill)[c]);
      value = (value - fill) * mask + fill;
    }
    to[c] = static_cast<std::uint8_t>(round_half_even(value));
  }
}

template <class Grid>
void sample_grid(const ImageView& input, const ImageShape& size, const Sampling& sampling,
                 ImageTarget& output, Grid&& grid) {
  output.resize({size.height, size.width, input.shape.channels});
  const auto height = static_cast<float>(input.shape.height);
  const auto width = static_cast<float>(input.shape.width);
  const bool nearest = sampling.interpolation == spec::transform::Interpolation::nearest;
  for (std::int64_t y = 0; y < size.height; ++y) {
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < size.width; ++x, to += input.shape.channels) {
      const Place place = grid(x, y);
      const Place at{to_pixels(place.x, width), to_pixels(place.y, height)};
      nearest ? sample_nearest(input, at, sampling, to) : sample_bilinear(input, at, sampling, to);
    }
  }
}

}  // namespace trainctl::data
