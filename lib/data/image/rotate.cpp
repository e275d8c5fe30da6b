#include "data/image/rotate.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {
namespace {

/// Pixel (y, x) of the output is pixel (origin + y down + x right) of the input.
struct Steps {
  const std::uint8_t* origin;
  std::int64_t down;
  std::int64_t right;
};

void move_pixels(const ImageShape& shape, const Steps& steps, ImageTarget& output) {
  output.resize(shape);
  for (std::int64_t y = 0; y < shape.height; ++y) {
    const std::uint8_t* from = steps.origin + y * steps.down;
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < shape.width; ++x, from += steps.right, to += shape.channels) {
      std::copy_n(from, shape.channels, to);
    }
  }
}

/// A quarter, half or three quarters of a turn, counter-clockwise.
void turn(const ImageView& input, int quarters, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  const std::uint8_t* last_column = input.pixels + (width - 1) * channels;
  if (quarters == 1)
    return move_pixels({width, height, channels}, {last_column, -channels, input.stride}, output);
  const std::uint8_t* last_row = input.row(height - 1);
  if (quarters == 3)
    return move_pixels({width, height, channels}, {last_row, channels, -input.stride}, output);
  move_pixels(input.shape, {last_row + (width - 1) * channels, -input.stride, -channels}, output);
}

}  // namespace

void rotate(const ImageView& input, const Rotation& rotation, const Sampling& sampling,
            ImageTarget& output) {
  const ImageShape& shape = input.shape;
  double degrees = std::fmod(rotation.degrees, 360.0);
  if (degrees < 0) degrees += 360;
  if (!rotation.center) {
    if (degrees == 0) return output.copy(input);
    if (degrees == 180) return turn(input, 2, output);
    const bool fits = rotation.frame == Frame::expanded || shape.height == shape.width;
    if (fits && degrees == 90) return turn(input, 1, output);
    if (fits && degrees == 270) return turn(input, 3, output);
  }
  AffineMotion motion{.degrees = -degrees};
  if (rotation.center) {
    motion.center_x = (*rotation.center)[0] - static_cast<double>(shape.width) * 0.5;
    motion.center_y = (*rotation.center)[1] - static_cast<double>(shape.height) * 0.5;
  }
  const AffineMatrix matrix = inverse_of(motion);
  const ImageShape size = rotation.frame == Frame::expanded ? expanded(shape, matrix) : shape;
  ENSURE(data, size.width <= kMostPixels / size.height,
         "an image of {}x{} pixels would become {}x{} when it is turned, and at most {} pixels are "
         "made; leave it out, resize first, or set expand: false",
         shape.width, shape.height, size.width, size.height, kMostPixels);
  warp_affine(input, matrix, size, sampling, output);
}

}  // namespace trainctl::data
