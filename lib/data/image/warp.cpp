#include "data/image/warp.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/strings.hpp"
#include "data/image/pixel_math.hpp"

namespace trainctl::data {
namespace {

// torch's grid_sample with zero padding and align_corners=False for one image, in float32. A grid
// is a function (x, y) -> Place, in -1 ... 1 across the input.

struct Place {
  float x = 0;
  float y = 0;
};

/// Converts a grid coordinate to pixels.
inline float to_pixels(float place, float extent) { return (place + 1.0F) * (extent / 2) - 0.5F; }

/// Clamps a coordinate outside of the image to a value that is safe to round; also maps NaN to such
/// a value.
inline float near_image(float at, std::int64_t extent) {
  const auto beyond = static_cast<float>(extent + 9);
  return at > -9.0F ? (at < beyond ? at : beyond) : -9.0F;
}

/// Returns the floor of a coordinate near the image.
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
  // A pixel outside has weight 0, so any pixel inside may replace it.
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
    // Edges are blended with black first and with the fill afterwards, as in torchvision.
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

constexpr float kTolerance = 1e-4F;  // of an expanded size, in pixels

float half_index(std::int64_t index, std::int64_t extent) {
  return static_cast<float>(index) - static_cast<float>(extent - 1) * 0.5F;
}

}  // namespace

AffineMatrix inverse_of(const AffineMotion& motion) {
  const SinCos turn = sin_cos_degrees(motion.degrees);
  const double a = turn.cos + turn.sin * motion.shear_y;
  const double c = turn.sin - turn.cos * motion.shear_y;
  const double b = -(a * motion.shear_x + turn.sin);
  const double d = turn.cos - c * motion.shear_x;
  AffineMatrix m{d / motion.scale, -b / motion.scale, 0, -c / motion.scale, a / motion.scale, 0};
  const double x = motion.center_x + motion.translate_x;
  const double y = motion.center_y + motion.translate_y;
  m[2] = motion.center_x - m[0] * x - m[1] * y;
  m[5] = motion.center_y - m[3] * x - m[4] * y;
  return m;
}

ImageShape expanded(const ImageShape& input, const AffineMatrix& matrix) {
  const auto extent = [&](std::size_t row, float half) {
    const float x = static_cast<float>(input.width) * 0.5F;
    const float y = static_cast<float>(input.height) * 0.5F;
    float least = 0;
    float most = 0;
    for (int corner = 0; corner < 4; ++corner) {
      const float sx = (corner & 1) != 0 ? x : -x;
      const float sy = (corner & 2) != 0 ? y : -y;
      const float at = sx * static_cast<float>(matrix[row]) +
                       sy * static_cast<float>(matrix[row + 1]) +
                       static_cast<float>(matrix[row + 2]) + half;
      least = corner == 0 ? at : std::min(least, at);
      most = corner == 0 ? at : std::max(most, at);
    }
    const auto kept = [](float at) { return std::trunc(at * (1 / kTolerance)) * kTolerance; };
    return static_cast<std::int64_t>(std::ceil(kept(most)) - std::floor(kept(least)));
  };
  return {extent(3, static_cast<float>(input.height) * 0.5F),
          extent(0, static_cast<float>(input.width) * 0.5F), input.channels};
}

void warp_affine(const ImageView& input, const AffineMatrix& matrix, const ImageShape& size,
                 const Sampling& sampling, ImageTarget& output) {
  std::array<float, 6> m;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::int64_t extent = i < 3 ? input.shape.width : input.shape.height;
    m[i] = static_cast<float>(matrix[i]) / (static_cast<float>(extent) * 0.5F);
  }
  sample_grid(input, size, sampling, output, [&](std::int64_t column, std::int64_t row) {
    const float x = half_index(column, size.width);
    const float y = half_index(row, size.height);
    return Place{(x * m[0] + y * m[1]) + m[2], (x * m[3] + y * m[4]) + m[5]};
  });
}

namespace {

using Row = std::array<double, 9>;  // coefficients and the right-hand side

/// Gaussian elimination with partial pivoting, with the same order of operations on every machine.
std::array<double, 8> solve(std::array<Row, 8> rows) {
  for (std::size_t k = 0; k < 8; ++k) {
    const auto larger = [&](const Row& a, const Row& b) { return std::abs(a[k]) < std::abs(b[k]); };
    std::swap(rows[k],
              *std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(k), rows.end(), larger));
    for (std::size_t i = k + 1; i < 8; ++i) {
      const double factor = rows[i][k] / rows[k][k];
      for (std::size_t j = k; j < 9; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  std::array<double, 8> solution{};
  for (std::size_t k = 8; k-- > 0;) {
    double sum = rows[k][8];
    for (std::size_t j = k + 1; j < 8; ++j) sum -= rows[k][j] * solution[j];
    solution[k] = sum / rows[k][k];
  }
  return solution;
}

/// Returns whether three of the four points are collinear.
bool in_line(const std::array<Point, 4>& points) {
  for (std::size_t i = 0; i < 4; ++i) {
    const Point& a = points[i];
    const Point& b = points[(i + 1) % 4];
    const Point& c = points[(i + 2) % 4];
    if ((b.x - a.x) * (c.y - a.y) == (b.y - a.y) * (c.x - a.x)) return true;
  }
  return false;
}

}  // namespace

std::optional<Perspective> perspective_of(const ImageShape& image,
                                          const std::array<Point, 4>& corners) {
  const std::int64_t right = image.width - 1;
  const std::int64_t bottom = image.height - 1;
  const std::array<Point, 4> targets{{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
  if (in_line(corners) || in_line(targets)) return std::nullopt;
  std::array<Row, 8> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto x = static_cast<double>(corners[i].x);
    const auto y = static_cast<double>(corners[i].y);
    const auto to_x = static_cast<double>(targets[i].x);
    const auto to_y = static_cast<double>(targets[i].y);
    rows[2 * i] = {x, y, 1, 0, 0, 0, -to_x * x, -to_x * y, to_x};
    rows[2 * i + 1] = {0, 0, 0, x, y, 1, -to_y * x, -to_y * y, to_y};
  }
  const std::array<double, 8> solution = solve(rows);
  Perspective out;
  std::transform(solution.begin(), solution.end(), out.begin(),
                 [](double value) { return static_cast<float>(value); });
  return out;
}

void warp_perspective(const ImageView& input, const Perspective& perspective,
                      const Sampling& sampling, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  std::array<float, 6> m;
  for (std::size_t i = 0; i < 6; ++i)
    m[i] = perspective[i] / (0.5F * static_cast<float>(i < 3 ? width : height));
  sample_grid(input, input.shape, sampling, output, [&](std::int64_t column, std::int64_t row) {
    const float x = static_cast<float>(column) + 0.5F;
    const float y = static_cast<float>(row) + 0.5F;
    const float depth = (x * perspective[6] + y * perspective[7]) + 1.0F;
    return Place{((x * m[0] + y * m[1]) + m[2]) / depth - 1.0F,
                 ((x * m[3] + y * m[4]) + m[5]) / depth - 1.0F};
  });
}

namespace {

/// Rotates or mirrors the pixels by an EXIF orientation.
void turn(const ImageView& input, int orientation, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  const Extents upright = upright_extents({height, width}, orientation);
  output.resize({upright.height, upright.width, channels});
  copy_upright(input, orientation, {0, 0, upright.height, upright.width}, output.pixels());
}

}  // namespace

void rotate(const ImageView& input, const Rotation& rotation, const Sampling& sampling,
            ImageTarget& output) {
  const ImageShape& shape = input.shape;
  double degrees = std::fmod(rotation.degrees, 360.0);
  if (degrees < 0) degrees += 360;
  if (!rotation.center) {
    if (degrees == 0) return output.copy(input);
    if (degrees == 180) return turn(input, 3, output);
    const bool fits = rotation.frame == Frame::expanded || shape.height == shape.width;
    if (fits && degrees == 90) return turn(input, 8, output);
    if (fits && degrees == 270) return turn(input, 6, output);
  }
  AffineMotion motion{.degrees = -degrees};
  if (rotation.center) {
    motion.center_x = (*rotation.center)[0] - static_cast<double>(shape.width) * 0.5;
    motion.center_y = (*rotation.center)[1] - static_cast<double>(shape.height) * 0.5;
  }
  const AffineMatrix matrix = inverse_of(motion);
  const ImageShape size = rotation.frame == Frame::expanded ? expanded(shape, matrix) : shape;
  ENSURE(data, size.width <= kMostPixels / size.height,
         "an image of {}x{} pixels would become {}x{} when rotated, more than the limit of {} "
         "pixels\nhint: remove the image, resize it before the rotation, or set expand: false",
         shape.width, shape.height, size.width, size.height, with_thousands(kMostPixels));
  warp_affine(input, matrix, size, sampling, output);
}

}  // namespace trainctl::data
