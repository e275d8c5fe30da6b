#pragma once

#include "data/image/round.hpp"
#include "data/image/warp.hpp"

#include <cmath>
#include <cstdint>

namespace trainctl::data {

// torch's grid_sample with zeros outside and align_corners=False, for one image, in its float32 arithmetic. A grid is a
// function (x, y) -> Place in -1 ... 1 across the input.

struct Place {
  float x = 0;
  float y = 0;
};

/// From a place of the grid to pixels.
inline float to_pixels(float place, float extent) { return (place + 1.0F) * (extent / 2) - 0.5F; }

/// Whether a coordinate, as a whole number, lies in the image; false for what is not a number.
inline bool within(float at, std::int64_t extent) { return at >= 0 && at < static_cast<float>(extent); }

/// The coordinate, or one that is outside too but small enough to be rounded; also for what is not a number.
inline float near_image(float at, std::int64_t extent) {
  const auto beyond = static_cast<float>(extent + 9);
  return at > -9.0F ? (at < beyond ? at : beyond) : -9.0F;
}

inline void sample_nearest(const ImageView& input, const Place& at, const Sampling& sampling, std::uint8_t* to) {
  const auto [height, width, channels] = input.shape;
  const float x = round_half_even(near_image(at.x, width));
  const float y = round_half_even(near_image(at.y, height));
  if (within(x, width) && within(y, height)) {
    const std::uint8_t* from = input.row(static_cast<std::int64_t>(y)) + static_cast<std::int64_t>(x) * channels;
    for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c];
  } else {
    for (std::int64_t c = 0; c < channels; ++c) to[c] = sampling.fill ? (*sampling.fill)[c] : std::uint8_t{0};
  }
}

/// The four pixels around a place, null where there is none, and their weights.
struct Corners {
  const std::uint8_t* pixels[4];
  float weights[4];

  Corners(const ImageView& input, const Place& at) {
    const float left = std::floor(at.x);
    const float top = std::floor(at.y);
    const float east = at.x - left;
    const float south = at.y - top;
    const float west = 1.0F - east;
    const float north = 1.0F - south;
    const float all[4] = {west * north, east * north, west * south, east * south};
    for (int i = 0; i < 4; ++i) {
      const float x = left + static_cast<float>(i & 1);
      const float y = top + static_cast<float>(i >> 1);
      const bool inside = within(x, input.shape.width) && within(y, input.shape.height);
      pixels[i] = inside ? input.row(static_cast<std::int64_t>(y)) + static_cast<std::int64_t>(x) * input.shape.channels
                         : nullptr;
      weights[i] = inside ? all[i] : 0.0F;
    }
  }
  [[nodiscard]] float share(std::int64_t channel) const {
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
      if (pixels[i] != nullptr) sum += static_cast<float>(pixels[i][channel]) * weights[i];
    }
    return sum;
  }
  [[nodiscard]] float inside() const { return weights[0] + weights[1] + weights[2] + weights[3]; }
};

inline void sample_bilinear(const ImageView& input, const Place& at, const Sampling& sampling, std::uint8_t* to) {
  const Corners corners(input, at);
  const float mask = corners.inside();
  for (std::int64_t c = 0; c < input.shape.channels; ++c) {
    float value = corners.share(c);
    // Edges fade into black first and into the fill then: torchvision's own order.
    if (sampling.fill) {
      const auto fill = static_cast<float>((*sampling.fill)[c]);
      value = (value - fill) * mask + fill;
    }
    to[c] = static_cast<std::uint8_t>(round_half_even(value));
  }
}

template <class Grid>
void sample_grid(const ImageView& input, const ImageShape& size, const Sampling& sampling, ImageTarget& output,
                 Grid&& grid) {
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
