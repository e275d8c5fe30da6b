#include "report/html/thin.hpp"

#include "base/error.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace trainctl::report {
namespace {

struct Point {
  double x = 0;
  double y = 0;
};

struct Line {
  std::span<const double> x;
  std::span<const double> y;

  [[nodiscard]] Point at(std::size_t i) const { return {x[i], y[i]}; }

  [[nodiscard]] Point mean(std::size_t first, std::size_t end) const {
    Point sum;
    const auto count = static_cast<double>(end - first);
    for (std::size_t i = first; i < end; ++i) {
      sum.x += x[i] / count;
      sum.y += y[i] / count;
    }
    return sum;
  }
};

double twice_area(const Point& a, const Point& b, const Point& c) {
  return std::abs((a.x - c.x) * (b.y - a.y) - (a.x - b.x) * (c.y - a.y));
}

/// Of the points from `first` to `end` the one with the largest triangle.
std::size_t farthest(const Line& line, std::size_t first, std::size_t end,
                     const std::pair<Point, Point>& others) {
  std::size_t best = first;
  double largest = -1;
  for (std::size_t i = first; i < end; ++i) {
    const double area = twice_area(others.first, line.at(i), others.second);
    if (area > largest) {
      largest = area;
      best = i;
    }
  }
  return best;
}

}  // namespace

std::vector<std::size_t> thinned(std::span<const double> x, std::span<const double> y,
                                 std::size_t most) {
  ASSERT(x.size() == y.size() && most >= 3);
  std::vector<std::size_t> kept;
  if (x.size() <= most) {
    kept.resize(x.size());
    std::iota(kept.begin(), kept.end(), std::size_t{0});
    return kept;
  }
  const Line line{x, y};
  const std::size_t buckets = most - 2;
  const std::size_t between = x.size() - 2;
  const auto begin_of = [&](std::size_t bucket) { return 1 + bucket * between / buckets; };
  kept.push_back(0);
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    const std::size_t end = begin_of(bucket + 1);
    const std::size_t next_end = bucket + 1 < buckets ? begin_of(bucket + 2) : x.size();
    const Point next = line.mean(end, next_end);
    kept.push_back(farthest(line, begin_of(bucket), end, {line.at(kept.back()), next}));
  }
  kept.push_back(x.size() - 1);
  return kept;
}

}  // namespace trainctl::report
