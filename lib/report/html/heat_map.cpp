#include "base/strings.hpp"
#include "report/html/charts.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainctl::report {
namespace {

constexpr std::size_t kMostClasses = 64;
constexpr std::size_t kMostNumbered = 16;  // with their counts in the cells

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
  // What is rare is what one looks for: it stays visible.
  const double opacity = 0.06 + 0.94 * std::sqrt(share);
  const std::string text = fmt::format(
      "{} {}, {} {}: {} of {} ({} %)", chart.row_label, chart.names[row], chart.column_label,
      chart.names[column], with_thousands(count), with_thousands(total), percent_text(share));
  Html shapes = element("rect",
                        {{"class", row == column ? "right" : "wrong"},
                         {"x", coordinate(grid.x(column))},
                         {"y", coordinate(grid.y(row))},
                         {"width", coordinate(grid.cell)},
                         {"height", coordinate(grid.cell)},
                         {"fill-opacity", fmt::format("{:.3f}", opacity)}},
                        svg_title(text));
  if (chart.counts.size() > kMostNumbered) return shapes;
  const Html number =
      svg_text(grid.x(column) + grid.cell / 2, grid.y(row) + grid.cell / 2 + 3, Anchor::middle,
               count >= 10000 ? fmt::format("{}k", count / 1000) : std::to_string(count));
  return shapes + element("g", {{"class", opacity > 0.7 ? "on-dark" : "on-light"}}, number);
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
  return element("g", {{"class", "heat"}}, cells) + element("g", {{"class", "ticks"}}, names);
}

bool is_square(const HeatMap& chart) {
  const std::size_t classes = chart.counts.size();
  return chart.names.size() == classes &&
         std::ranges::all_of(chart.counts, [&](const auto& row) { return row.size() == classes; });
}

}  // namespace

Html heat_map(const HeatMap& chart) {
  const std::size_t classes = chart.counts.size();
  if (classes == 0 || classes > kMostClasses || !is_square(chart)) return {};
  Grid grid{chart, PlotArea{.width = 480, .height = 0, .left = 64, .right = 10, .top = 10}, 0};
  grid.cell = (grid.area.width - grid.area.left - grid.area.right) / static_cast<double>(classes);
  grid.cell = std::min(grid.cell, 40.0);
  grid.area.height = grid.y(classes) + grid.area.bottom;
  const Html labels =
      element("g", {{"class", "label"}},
              svg_text(grid.x(classes), grid.area.height - 4, Anchor::end, chart.column_label) +
                  svg_text(2, grid.area.height - 4, Anchor::start, chart.row_label));
  const Html back = element("rect", {{"class", "plate"},
                                     {"x", coordinate(grid.x(0))},
                                     {"y", coordinate(grid.y(0))},
                                     {"width", coordinate(grid.x(classes) - grid.x(0))},
                                     {"height", coordinate(grid.y(classes) - grid.y(0))}});
  std::int64_t right = 0;
  std::int64_t all = 0;
  for (std::size_t row = 0; row < classes; ++row) {
    right += chart.counts[row][row];
    all = std::accumulate(chart.counts[row].begin(), chart.counts[row].end(), all);
  }
  const PlotTitle title{chart.title,
                        fmt::format("{} classes; {} of {} samples on the diagonal", classes,
                                    with_thousands(right), with_thousands(all))};
  return figure(title, {}, drawing(grid.area, title, back + rows_of(grid) + labels));
}

}  // namespace trainctl::report
