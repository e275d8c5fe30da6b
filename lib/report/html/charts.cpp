#include "report/html/charts.hpp"

#include "base/strings.hpp"
#include "report/compare/statistics.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainctl::report {
namespace {

constexpr std::size_t kMostBars = 60;

double usable(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

double value_at(const StackedBars::Part& part, std::size_t bar) {
  return bar < part.values.size() ? usable(part.values[bar]) : 0;
}

/// Averages neighboring bars if there are too many to distinguish.
StackedBars joined_bars(const StackedBars& chart) {
  if (chart.bars.size() <= kMostBars) return chart;
  const std::size_t each = (chart.bars.size() + kMostBars - 1) / kMostBars;
  StackedBars few{.title = chart.title,
                  .x_label = chart.x_label,
                  .y_label = chart.y_label + fmt::format(", mean of {}", each)};
  for (const StackedBars::Part& part : chart.parts) few.parts.push_back({part.name, {}});
  for (std::size_t first = 0; first < chart.bars.size(); first += each) {
    const std::size_t end = std::min(first + each, chart.bars.size());
    few.bars.push_back(chart.bars[first] + "-" + chart.bars[end - 1]);
    for (std::size_t p = 0; p < chart.parts.size(); ++p) {
      double sum = 0;
      for (std::size_t i = first; i < end; ++i) sum += value_at(chart.parts[p], i);
      few.parts[p].values.push_back(sum / static_cast<double>(end - first));
    }
  }
  return few;
}

double height_of(const StackedBars& chart, std::size_t bar) {
  double sum = 0;
  for (const StackedBars::Part& part : chart.parts) sum += value_at(part, bar);
  return sum;
}

Html bar_of(const StackedBars& chart, std::size_t bar, const PlotArea& area, const Axis& y) {
  const auto count = static_cast<double>(chart.bars.size());
  const double each = 1 / count;
  const double gap = std::min(each * 0.25, 0.01);
  const double left = area.x(static_cast<double>(bar) * each + gap / 2);
  const double width = area.x(each - gap) - area.x(0);
  const double total = height_of(chart, bar);
  double below = 0;
  Html shapes;
  for (std::size_t p = 0; p < chart.parts.size(); ++p) {
    const double value = value_at(chart.parts[p], bar);
    if (value == 0) continue;
    const double top = area.y(y.place(below + value));
    const double height = area.y(y.place(below)) - top;
    below += value;
    const std::string text =
        fmt::format("{} {}: {} {} ({} %)", chart.x_label, chart.bars[bar], chart.parts[p].name,
                    human_duration(value), percent_text(value / total));
    shapes += svg_rect(color_class(p), {left, top, width, height}, svg_title(text));
  }
  return shapes;
}

/// Every bar has a name, but only some names are shown.
Html names_below(const StackedBars& chart, const PlotArea& area) {
  const std::size_t every = (chart.bars.size() + 11) / 12;
  Html names;
  for (std::size_t i = 0; i < chart.bars.size(); i += every) {
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(chart.bars.size());
    names += svg_text(area.x(at), area.height - area.bottom + 15, Anchor::middle,
                      clip(chart.bars[i], 12));
  }
  return svg_group("ticks", names);
}

}  // namespace

Html stacked_bars(const StackedBars& whole) {
  StackedBars chart = joined_bars(whole);
  std::erase_if(chart.parts, [](const StackedBars::Part& part) {
    return std::ranges::none_of(part.values, [](double value) { return usable(value) > 0; });
  });
  double highest = 0;
  for (std::size_t i = 0; i < chart.bars.size(); ++i)
    highest = std::max(highest, height_of(chart, i));
  if (!(highest > 0) || !std::isfinite(highest)) return {};
  const PlotArea area;
  const Axis y = linear_axis(0, highest, 5);
  Html shapes = frame(area, {.low = 0, .high = 1}, y, {chart.x_label, chart.y_label});
  Html bars;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) bars += bar_of(chart, i, area, y);
  shapes += svg_group("bars", bars) + names_below(chart, area);
  std::vector<LegendEntry> entries;
  std::vector<std::string> names;
  for (std::size_t p = 0; p < chart.parts.size(); ++p) {
    entries.push_back({chart.parts[p].name, p});
    names.push_back(chart.parts[p].name);
  }
  const PlotTitle title{
      chart.title, fmt::format("{} bars, the highest {}; each is the sum of {}", chart.bars.size(),
                               human_duration(highest), join(names, ", "))};
  return figure(title, legend(entries), drawing(area, title, shapes));
}

namespace {

constexpr std::size_t kMostHeatClasses = 64;
constexpr std::size_t kMostNumbered = 16;  // up to this many classes the cells show their counts

struct Grid {
  const HeatMap& chart;
  PlotArea area;
  double cell = 0;

  [[nodiscard]] double x(std::size_t column) const {
    return area.left + static_cast<double>(column) * cell;
  }
  [[nodiscard]] double y(std::size_t row) const {
    return area.top + static_cast<double>(row) * cell;
  }
};

Html cell_of(const Grid& grid, std::size_t row, std::size_t column, std::int64_t total) {
  const HeatMap& chart = grid.chart;
  const std::int64_t count = chart.counts[row][column];
  const double share = static_cast<double>(count) / static_cast<double>(total);
  // The square root keeps rare confusions visible.
  const double opacity = 0.06 + 0.94 * std::sqrt(share);
  const std::string text = fmt::format(
      "{} {}, {} {}: {} of {} ({} %)", chart.row_label, chart.names[row], chart.column_label,
      chart.names[column], with_thousands(count), with_thousands(total), percent_text(share));
  Html shapes = svg_rect(row == column ? "right" : "wrong",
                         {grid.x(column), grid.y(row), grid.cell, grid.cell}, svg_title(text),
                         {{"fill-opacity", fmt::format("{:.3f}", opacity)}});
  if (chart.counts.size() > kMostNumbered) return shapes;
  const Html number =
      svg_text(grid.x(column) + grid.cell / 2, grid.y(row) + grid.cell / 2 + 3, Anchor::middle,
               count >= 10000 ? fmt::format("{}k", count / 1000) : std::to_string(count));
  return shapes + svg_group(opacity > 0.7 ? "on-dark" : "on-light", number);
}

Html rows_of(const Grid& grid) {
  const HeatMap& chart = grid.chart;
  const std::size_t classes = chart.counts.size();
  const std::size_t every = (classes + 19) / 20;
  Html cells;
  Html names;
  for (std::size_t row = 0; row < classes; ++row) {
    const auto total =
        std::accumulate(chart.counts[row].begin(), chart.counts[row].end(), std::int64_t{0});
    for (std::size_t column = 0; column < classes; ++column) {
      if (chart.counts[row][column] > 0 && total > 0) cells += cell_of(grid, row, column, total);
    }
    if (row % every != 0) continue;
    const double middle = static_cast<double>(row) * grid.cell + grid.cell / 2;
    names += svg_text(grid.area.left - 5, grid.area.top + middle + 3.5, Anchor::end,
                      clip(chart.names[row], 9));
    names += svg_text(grid.area.left + middle, grid.y(classes) + 13, Anchor::middle,
                      clip(chart.names[row], classes <= 10 ? 6 : 4));
  }
  return svg_group("heat", cells) + svg_group("ticks", names);
}

bool is_square(const HeatMap& chart) {
  const std::size_t classes = chart.counts.size();
  return chart.names.size() == classes &&
         std::ranges::all_of(chart.counts, [&](const auto& row) { return row.size() == classes; });
}

}  // namespace

Html heat_map(const HeatMap& chart) {
  const std::size_t classes = chart.counts.size();
  if (classes == 0 || classes > kMostHeatClasses || !is_square(chart)) return {};
  Grid grid{chart, PlotArea{.width = 480, .height = 0, .left = 64, .right = 10, .top = 10}, 0};
  grid.cell = (grid.area.width - grid.area.left - grid.area.right) / static_cast<double>(classes);
  grid.cell = std::min(grid.cell, 40.0);
  grid.area.height = grid.y(classes) + grid.area.bottom;
  const Html labels = svg_group(
      "label", svg_text(grid.x(classes), grid.area.height - 4, Anchor::end, chart.column_label) +
                   svg_text(2, grid.area.height - 4, Anchor::start, chart.row_label));
  const Html back = svg_rect(
      "plate", {grid.x(0), grid.y(0), grid.x(classes) - grid.x(0), grid.y(classes) - grid.y(0)});
  std::int64_t right = 0;
  std::int64_t all = 0;
  for (std::size_t row = 0; row < classes; ++row) {
    right += chart.counts[row][row];
    all = std::accumulate(chart.counts[row].begin(), chart.counts[row].end(), all);
  }
  const PlotTitle title{
      chart.title, fmt::format("{} classes; {} of {} samples are classified correctly (diagonal)",
                               classes, with_thousands(right), with_thousands(all))};
  return figure(title, {}, drawing(grid.area, title, back + rows_of(grid) + labels));
}

namespace {

constexpr std::size_t kShortName = 22;  // in characters, that fit next to a row

/// Longer names are placed above the rows.
struct RowLayout {
  bool names_above = false;

  [[nodiscard]] double height() const { return names_above ? 40 : 26; }
  [[nodiscard]] double left() const { return names_above ? 28 : 170; }
};

std::string text_of(const IntervalRows::Row& row) {
  if (!row.value) return row.name + ": not known";
  std::string text = fmt::format("{}: {}", row.name, metric_text(*row.value));
  if (row.low && row.high)
    text += fmt::format(", interval {} to {}", metric_text(*row.low), metric_text(*row.high));
  return text;
}

Html name_of(const IntervalRows::Row& row, double y, const PlotArea& area, RowLayout layout) {
  const Html text = layout.names_above
                        ? svg_text(area.left, y - 11, Anchor::start, clip(row.name, 70))
                        : svg_text(area.left - 8, y + 3.5, Anchor::end, clip(row.name, kShortName));
  return svg_group(layout.names_above ? "ticks halo" : "ticks", text);
}

Html row_of(const IntervalRows::Row& row, double y, const PlotArea& area, const Axis& axis) {
  const auto at = [&](double value) { return area.x(axis.place(value)); };
  Html shapes;
  for (const double point : row.points) {
    if (std::isfinite(point))
      shapes += element(
          "circle",
          {{"class", "point"}, {"cx", coordinate(at(point))}, {"cy", coordinate(y)}, {"r", "2"}});
  }
  if (row.low && row.high && std::isfinite(*row.low) && std::isfinite(*row.high))
    shapes += svg_group("interval", svg_line(at(*row.low), y, at(*row.high), y) +
                                        svg_line(at(*row.low), y - 5, at(*row.low), y + 5) +
                                        svg_line(at(*row.high), y - 5, at(*row.high), y + 5));
  if (row.value && std::isfinite(*row.value))
    shapes += element("circle", {{"class", "value"},
                                 {"cx", coordinate(at(*row.value))},
                                 {"cy", coordinate(y)},
                                 {"r", "4"}});
  return svg_title(text_of(row)) + shapes;
}

}  // namespace

Html interval_rows(const IntervalRows& chart) {
  std::vector<double> values;
  for (const IntervalRows::Row& row : chart.rows) {
    values.insert(values.end(), row.points.begin(), row.points.end());
    for (const auto& value : {row.value, row.low, row.high})
      values.push_back(value.value_or(HUGE_VAL));
  }
  auto [low, high] = extent_of(values);
  if (low > high) return {};
  if (chart.reference) {
    low = std::min(low, *chart.reference);
    high = std::max(high, *chart.reference);
  }
  const RowLayout layout{std::ranges::any_of(
      chart.rows, [](const IntervalRows::Row& row) { return row.name.size() > kShortName; })};
  PlotArea area{.left = layout.left(), .top = 10};
  area.height = area.top + area.bottom + layout.height() * static_cast<double>(chart.rows.size());
  const Axis x = linear_axis(low, high, 5);
  Html shapes = frame(area, x, {.low = 0, .high = 1}, {chart.x_label, ""});
  if (chart.reference) {
    const double at = area.x(x.place(*chart.reference));
    shapes += svg_group("reference", svg_line(at, area.y(1), at, area.y(0)));
  }
  std::string texts;
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const double part = layout.names_above ? 0.65 : 0.5;
    const double y = area.top + (static_cast<double>(i) + part) * layout.height();
    shapes += svg_group(
        "row", row_of(chart.rows[i], y, area, x) + name_of(chart.rows[i], y, area, layout));
    texts += (i == 0 ? "" : "; ") + text_of(chart.rows[i]);
  }
  const PlotTitle title{chart.title, texts};
  return figure(title, {}, drawing(area, title, shapes));
}

namespace {

constexpr std::size_t kShades = 5;

double value_at(const ParallelChart::Line& line, std::size_t axis) {
  return axis < line.values.size() ? line.values[axis] : std::nan("");
}

Axis scale_of(const ParallelChart& chart, std::size_t axis) {
  const ParallelChart::Axis& definition = chart.axes[axis];
  if (!definition.values.empty()) {
    Axis words{.low = -0.5, .high = static_cast<double>(definition.values.size()) - 0.5};
    for (std::size_t i = 0; i < definition.values.size(); ++i)
      words.ticks.push_back(static_cast<double>(i));
    return words;
  }
  std::vector<double> values;
  for (const ParallelChart::Line& line : chart.lines) values.push_back(value_at(line, axis));
  const Interval bounds = extent_of(values);
  return definition.logarithmic && bounds.low > 0 ? log_axis(bounds.low, bounds.high, 5)
                                                  : linear_axis(bounds.low, bounds.high, 5);
}

std::string tick_at(const ParallelChart::Axis& definition, const Axis& scale, std::size_t tick) {
  if (definition.values.empty()) return tick_text(scale.ticks[tick], scale);
  return clip(definition.values[tick], 14);
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
  const ParallelChart::Axis& definition = board.chart.axes[axis];
  const Axis& scale = board.scales[axis];
  const bool is_last = axis + 1 == board.chart.axes.size();
  const Anchor side = is_last ? Anchor::start : Anchor::end;
  Html ticks;
  for (std::size_t i = 0; i < scale.ticks.size(); ++i) {
    const double y = board.area.y(scale.place(scale.ticks[i]));
    ticks += svg_text(x + (is_last ? 6 : -6), y + 3.5, side, tick_at(definition, scale, i));
  }
  const Anchor anchor = axis == 0 ? Anchor::start : is_last ? Anchor::end : Anchor::middle;
  const double at = axis == 0 ? 2 : is_last ? board.area.width - 2 : x;
  // Names of neighboring axes alternate between two heights, because they are often long.
  const double name_y = board.area.height - (axis % 2 == 0 ? 20.0 : 6.0);
  return svg_group("base", svg_line(x, board.area.y(0), x, board.area.y(1))) +
         svg_group("ticks halo", ticks) +
         svg_group("label", svg_text(at, name_y, anchor, clip(definition.name, 30)));
}

Html line_of(const Board& board, const ParallelChart::Line& line) {
  std::string path;
  char letter = 'M';
  for (std::size_t axis = 0; axis < board.chart.axes.size(); ++axis) {
    const double place = board.scales[axis].place(value_at(line, axis));
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
  // The best runs are drawn last, on top.
  std::vector<const ParallelChart::Line*> order;
  for (const ParallelChart::Line& line : chart.lines) order.push_back(&line);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->shade > b->shade; });
  Html lines;
  for (const ParallelChart::Line* line : order) lines += line_of(board, *line);
  Html shapes = svg_group("parallel", lines);
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
