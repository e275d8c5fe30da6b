#include "report/html/charts.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

constexpr std::size_t kShortName = 22;  // characters that fit beside a row

/// Names that do not fit beside the rows stand above them.
struct RowLayout {
  bool names_above = false;

  [[nodiscard]] double height() const { return names_above ? 40 : 26; }
  [[nodiscard]] double left() const { return names_above ? 28 : 170; }
};

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

Html name_of(const IntervalRows::Row& row, double y, const PlotArea& area, RowLayout layout) {
  const Html text = layout.names_above
                        ? svg_text(area.left, y - 11, Anchor::start, clip(row.name, 70))
                        : svg_text(area.left - 8, y + 3.5, Anchor::end, clip(row.name, kShortName));
  return element("g", {{"class", layout.names_above ? "ticks halo" : "ticks"}}, text);
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
  return shapes;
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
  const RowLayout layout{std::ranges::any_of(
      chart.rows, [](const IntervalRows::Row& row) { return row.name.size() > kShortName; })};
  PlotArea area{.left = layout.left(), .top = 10};
  area.height = area.top + area.bottom + layout.height() * static_cast<double>(chart.rows.size());
  const Axis x = linear_axis(low, high, 5);
  Html shapes = frame(area, x, {.low = 0, .high = 1, .ticks = {}}, {chart.x_label, ""});
  if (chart.reference) {
    const double at = area.x(x.place(*chart.reference));
    shapes += element("g", {{"class", "reference"}}, svg_line(at, area.y(1), at, area.y(0)));
  }
  std::string texts;
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    const double part = layout.names_above ? 0.65 : 0.5;
    const double y = area.top + (static_cast<double>(i) + part) * layout.height();
    shapes += element("g", {{"class", "row"}},
                      row_of(chart.rows[i], y, area, x) + name_of(chart.rows[i], y, area, layout));
    texts += (i == 0 ? "" : "; ") + text_of(chart.rows[i]);
  }
  const PlotTitle title{chart.title, texts};
  return figure(title, {}, drawing(area, title, shapes));
}

}  // namespace trainctl::report
