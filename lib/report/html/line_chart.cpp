#include "report/html/line_chart.hpp"

#include "base/error.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

/// Returns the point from `first` to `end` with the largest triangle.
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

constexpr std::size_t kMostPoints = 400;  // per line
constexpr std::size_t kMostDots = 40;

/// The extent of the points that can be drawn.
struct Extent {
  Interval x;
  Interval y;
};

Extent drawn_extent(const LineChart& chart) {
  std::vector<double> x;
  std::vector<double> y;
  for (const Series& series : chart.series) {
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
      if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
      x.push_back(series.x[i]);
      y.push_back(series.y[i]);
    }
  }
  return {extent_of(x), extent_of(y)};
}

Axis y_axis(const LineChart& chart, const Interval& y) {
  constexpr int kTicks = 5;
  if (chart.scale == AxisScale::automatic && y.low > 0 && y.high / y.low > 30)
    return log_axis(y.low, y.high, kTicks);
  return linear_axis(std::min(y.low, chart.y_from.value_or(y.low)), y.high, kTicks);
}

/// Consecutive points without a gap.
struct Stretch {
  std::vector<double> x;
  std::vector<double> y;
};

std::vector<Stretch> stretches_of(const Series& series, const Axis& y) {
  std::vector<Stretch> stretches;
  bool is_connected = false;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    const bool shown = std::isfinite(series.x[i]) && std::isfinite(y.place(series.y[i]));
    if (shown) {
      if (!is_connected) stretches.emplace_back();
      stretches.back().x.push_back(series.x[i]);
      stretches.back().y.push_back(series.y[i]);
    }
    is_connected = shown;
  }
  return stretches;
}

struct Drawn {
  std::string path;
  Html dots;
};

struct Pen {
  const PlotArea& area;
  const Axis& x;
  const Axis& y;
  const LineChart& chart;
  const Series& series;

  void draw(const Stretch& stretch, std::size_t most, bool dots, Drawn& drawn) const {
    // The thinning uses positions in the drawing, so that it matches the visible line.
    std::vector<double> across;
    std::vector<double> up;
    for (std::size_t i = 0; i < stretch.x.size(); ++i) {
      across.push_back(area.x(x.place(stretch.x[i])));
      up.push_back(area.y(y.place(stretch.y[i])));
    }
    char letter = 'M';
    for (const std::size_t i : thinned(across, up, std::max<std::size_t>(most, 3))) {
      drawn.path += fmt::format("{}{} {}", letter, coordinate(across[i]), coordinate(up[i]));
      letter = 'L';
      if (dots || stretch.x.size() == 1) drawn.dots += dot(stretch.x[i], stretch.y[i]);
    }
  }

  [[nodiscard]] Html dot(double at, double value) const {
    const std::string text = fmt::format("{}, {} {}: {}", series.name, chart.x_label,
                                         exact_text(at), metric_text(value));
    return element("circle",
                   {{"cx", coordinate(area.x(x.place(at)))},
                    {"cy", coordinate(area.y(y.place(value)))},
                    {"r", "2.2"}},
                   svg_title(text));
  }
};

Html line_of(const Pen& pen) {
  const std::vector<Stretch> stretches = stretches_of(pen.series, pen.y);
  std::size_t points = 0;
  for (const Stretch& stretch : stretches) points += stretch.x.size();
  if (points == 0) return {};
  Drawn drawn;
  const bool dots = points <= kMostDots && pen.series.look != LineLook::faint;
  for (const Stretch& stretch : stretches)
    pen.draw(stretch, kMostPoints * stretch.x.size() / points, dots, drawn);
  std::string look = "line " + color_class(pen.series.color);
  if (pen.series.look == LineLook::dashed) look += " dashed";
  if (pen.series.look == LineLook::faint) look += " faint";
  return svg_group(look, element("path", {{"d", drawn.path}, {"data-name", pen.series.name}},
                                 svg_title(pen.series.name)) +
                             drawn.dots);
}

std::string described(const LineChart& chart, const Extent& extent) {
  std::string names;
  for (const Series& series : chart.series) {
    if (!names.empty()) names += ", ";
    names += series.name;
    for (auto last = series.y.rbegin(); last != series.y.rend(); ++last) {
      if (!std::isfinite(*last)) continue;
      names += " (last " + metric_text(*last) + ")";
      break;
    }
  }
  return fmt::format("{} for {} {} to {}, with values from {} to {}; lines: {}", chart.y_label,
                     chart.x_label, exact_text(extent.x.low), exact_text(extent.x.high),
                     metric_text(extent.y.low), metric_text(extent.y.high), names);
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

Html line_chart(const LineChart& chart) {
  const Extent extent = drawn_extent(chart);
  if (extent.y.low > extent.y.high) return {};
  const PlotArea area;
  const Axis y = y_axis(chart, extent.y);
  const Axis x = whole_axis(extent.x.low, extent.x.high, 7);
  const bool is_log = y.scaling == AxisScaling::logarithmic;
  Html shapes = frame(area, x, y, {chart.x_label, chart.y_label + (is_log ? " (log)" : "")});
  std::vector<LegendEntry> entries;
  for (const Series& series : chart.series) {
    shapes += line_of({area, x, y, chart, series});
    entries.push_back({series.name, series.color, series.look == LineLook::dashed});
  }
  const PlotTitle title{chart.title, described(chart, extent)};
  const Attributes scales{{"class", "lines"},
                          {"data-x0", exact_text(x.low)},
                          {"data-x1", exact_text(x.high)},
                          {"data-y0", exact_text(y.low)},
                          {"data-y1", exact_text(y.high)},
                          {"data-left", coordinate(area.x(0))},
                          {"data-right", coordinate(area.x(1))},
                          {"data-top", coordinate(area.y(1))},
                          {"data-bottom", coordinate(area.y(0))},
                          {"data-scale", is_log ? "log" : "linear"},
                          {"data-x", chart.x_label}};
  constexpr std::size_t kMostNamed = 24;
  const Html key = entries.size() > kMostNamed ? Html() : legend(entries);
  return figure(title, key, drawing(area, title, shapes, scales));
}

}  // namespace trainctl::report
