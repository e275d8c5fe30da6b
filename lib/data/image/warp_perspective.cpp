#include "data/image/sample_grid.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainctl::data {
namespace {

using Row = std::array<double, 9>;  // coefficients and the right side

/// Gauss's elimination with the largest pivot, in one order of operations on every machine.
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

/// Whether three of the four lie on one line.
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

}  // namespace trainctl::data
