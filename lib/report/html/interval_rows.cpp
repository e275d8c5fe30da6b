#include "report/format.hpp"
#include "report/html/charts.hpp"
#include "report/html/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

constexpr double kRowHeight = 26;

std::vector<double> values_of(const IntervalRows::Row& row) {
  std::vector<double> values = row.points;
  for (const auto& value : {row.value, row.low, row.high}) {
    if (value) values.push_back(*value);
  }
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values;
}

std::string text_of(const IntervalRows::Row& row) {
  if (!row.value) return row.name + ": not known";
  std::string text = fmt::format("{}: {}", row.name, metric_text(*row.value));
  if (row.low && row.high)
    text += fmt::format(", interval {} to {}", metric_text(*row.low), metric_text(*row.high));
  return text;
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
  if (row.low && row.high && std::isfinite(*row.low) && std::isfinite(*row.high)) {
    shapes += element("g", {{"class", "interval"}},
                      svg_line(at(*row.low), y, at(*row.high), y) +
                          svg_line(at(*row.low), y - 5, at(*row.low), y + 5) +
                          svg_line(at(*row.high), y - 5, at(*row.high), y + 5));
  }
  if (row.value && std::isfinite(*row.value))
    shapes += element("circle", {{"class", "value"},
                                 {"cx", coordinate(at(*row.value))},
                                 {"cy", coordinate(y)},
                                 {"r", "4"}});
  shapes = svg_title(text_of(row)) + shapes;
  const Html name = element("g", {{"class", "ticks"}},
                            svg_text(area.left - 8, y + 3.5, Anchor::end, clip(row.name, 26)));
  return element("g", {{"class", "row"}}, shapes + name);
}

}  // namespace

Html interval_rows(const IntervalRows& chart) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const IntervalRows::Row& row : chart.rows) {
    for (const double value : values_of(row)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) return {};
  if (chart.reference) {
    low = std::min(low, *chart.reference);
    high = std::max(high, *chart.reference);
  }
  PlotArea area{.left = 170, .top = 10};
  area.height = area.top + area.bottom + kRowHeight * static_cast<double>(chart.rows.size());
  const Axis x = linear_axis(low, high, 5);
  Html shapes = frame(area, x, {.low = 0, .high = 1, .ticks = {}}, {chart.x_label, ""});
  if (chart.reference) {
    const double at = area.x(x.place(*chart.reference));
    shapes += element("g", {{"class", "reference"}}, svg_line(at, area.y(1), at, area.y(0)));
  }
  std::string texts;
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const double y = area.top + (static_cast<double>(i) + 0.5) * kRowHeight;
    shapes += row_of(chart.rows[i], y, area, x);
    texts += (i == 0 ? "" : "; ") + text_of(chart.rows[i]);
  }
  const PlotTitle title{chart.title, texts};
  return figure(title, {}, drawing(area, title, shapes));
}

}  // namespace trainctl::report
