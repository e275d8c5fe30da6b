#include "base/portable_math.hpp"
#include "data/image/sample_grid.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {
namespace {

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

}  // namespace trainctl::data
