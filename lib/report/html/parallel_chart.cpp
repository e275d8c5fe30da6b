#include "report/html/charts.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

constexpr std::size_t kShades = 5;

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Bounds bounds_of(const ParallelChart& chart, std::size_t axis) {
  Bounds bounds;
  for (const ParallelChart::Line& line : chart.lines) {
    const double value = axis < line.values.size() ? line.values[axis] : std::nan("");
    if (!std::isfinite(value)) continue;
    bounds.low = std::min(bounds.low, value);
    bounds.high = std::max(bounds.high, value);
  }
  return bounds;
}

Axis scale_of(const ParallelChart& chart, std::size_t axis) {
  const ParallelChart::Axis& told = chart.axes[axis];
  if (!told.values.empty()) {
    Axis words{.low = -0.5, .high = static_cast<double>(told.values.size()) - 0.5, .ticks = {}};
    for (std::size_t i = 0; i < told.values.size(); ++i)
      words.ticks.push_back(static_cast<double>(i));
    return words;
  }
  const Bounds bounds = bounds_of(chart, axis);
  return told.logarithmic && bounds.low > 0 ? log_axis(bounds.low, bounds.high, 5)
                                            : linear_axis(bounds.low, bounds.high, 5);
}

std::string tick_at(const ParallelChart::Axis& told, const Axis& scale, std::size_t tick) {
  if (told.values.empty()) return tick_text(scale.ticks[tick], scale);
  return clip(told.values[tick], 14);
}

struct Board {
  const ParallelChart& chart;
  PlotArea area;
  std::vector<Axis> scales;

  [[nodiscard]] double x(std::size_t axis) const {
    return area.x(static_cast<double>(axis) / static_cast<double>(chart.axes.size() - 1));
  }
};

Html axis_of(const Board& board, std::size_t axis) {
  const double x = board.x(axis);
  const ParallelChart::Axis& told = board.chart.axes[axis];
  const Axis& scale = board.scales[axis];
  const bool is_last = axis + 1 == board.chart.axes.size();
  const Anchor side = is_last ? Anchor::start : Anchor::end;
  Html ticks;
  for (std::size_t i = 0; i < scale.ticks.size(); ++i) {
    const double y = board.area.y(scale.place(scale.ticks[i]));
    ticks += svg_text(x + (is_last ? 6 : -6), y + 3.5, side, tick_at(told, scale, i));
  }
  const Anchor anchor = axis == 0 ? Anchor::start : is_last ? Anchor::end : Anchor::middle;
  const double at = axis == 0 ? 2 : is_last ? board.area.width - 2 : x;
  // Neighbours at two heights: their names are often long.
  const double name_y = board.area.height - (axis % 2 == 0 ? 20.0 : 6.0);
  return element("g", {{"class", "base"}}, svg_line(x, board.area.y(0), x, board.area.y(1))) +
         element("g", {{"class", "ticks halo"}}, ticks) +
         element("g", {{"class", "label"}}, svg_text(at, name_y, anchor, clip(told.name, 30)));
}

Html line_of(const Board& board, const ParallelChart::Line& line) {
  std::string path;
  char letter = 'M';
  for (std::size_t axis = 0; axis < board.chart.axes.size(); ++axis) {
    const double value = axis < line.values.size() ? line.values[axis] : std::nan("");
    const double place = board.scales[axis].place(value);
    if (!std::isfinite(place)) {
      letter = 'M';
      continue;
    }
    path +=
        fmt::format("{}{} {}", letter, coordinate(board.x(axis)), coordinate(board.area.y(place)));
    letter = 'L';
  }
  const double bounded = std::isfinite(line.shade) ? std::clamp(line.shade, 0.0, 1.0) : 1.0;
  const auto shade = static_cast<std::size_t>(std::lround(bounded * (kShades - 1)));
  return element("path", {{"class", fmt::format("shade{}", shade)}, {"d", path}},
                 svg_title(line.name));
}

}  // namespace

Html parallel_chart(const ParallelChart& chart) {
  if (chart.axes.size() < 2 || chart.lines.empty()) return {};
  const double width = std::max(760.0, 110.0 * static_cast<double>(chart.axes.size()));
  Board board{
      chart, {.width = width, .height = 300, .left = 60, .right = 60, .top = 14, .bottom = 50}, {}};
  for (std::size_t axis = 0; axis < chart.axes.size(); ++axis)
    board.scales.push_back(scale_of(chart, axis));
  // The best are drawn last, on top.
  std::vector<const ParallelChart::Line*> order;
  for (const ParallelChart::Line& line : chart.lines) order.push_back(&line);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->shade > b->shade; });
  Html lines;
  for (const ParallelChart::Line* line : order) lines += line_of(board, *line);
  Html shapes = element("g", {{"class", "parallel"}}, lines);
  std::string names;
  for (std::size_t axis = 0; axis < chart.axes.size(); ++axis) {
    shapes += axis_of(board, axis);
    names += (axis == 0 ? "" : ", ") + chart.axes[axis].name;
  }
  const PlotTitle title{chart.title, fmt::format("{} runs over {}", chart.lines.size(), names)};
  return figure(title, {},
                element("div", {{"class", "scroll"}},
                        drawing(board.area, title, shapes, {{"class", "wide"}})));
}

}  // namespace trainctl::report
