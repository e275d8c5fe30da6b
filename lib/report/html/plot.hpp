#pragma once

#include "report/html/html.hpp"

#include <array>

namespace trainctl::report {

enum class AxisScaling { linear, logarithmic };

/// An axis from `low` to `high` with labeled ticks in ascending order.
struct Axis {
  double low = 0;
  double high = 1;
  AxisScaling scaling = AxisScaling::linear;
  std::vector<double> ticks = {};

  /// Returns the position of the value: 0 at `low`, 1 at `high`. NaN if the value has no position.
  [[nodiscard]] double place(double value) const;
};

/// Returns an axis widened to whole steps of 1, 2 or 5 times a power of ten, with about `most`
/// ticks and never more than `most` + 2. Without a finite value, or with a single value, it still
/// has an extent.
Axis linear_axis(double low, double high, int most);
/// Returns an axis with ticks at powers of ten, and at 2 and 5 times these if there are few. `low`
/// must be positive.
Axis log_axis(double low, double high, int most);
/// Returns an axis with integer ticks for epochs and steps; it is not widened.
Axis whole_axis(double low, double high, int most);

/// Returns the text of a tick with as many decimals as needed to distinguish it from its neighbors:
/// "0.05", "1,500", "2e-05", "15k".
std::string tick_text(double value, const Axis& axis);

// The parts that charts share: the frame with its axes, the legend, SVG numbers.

/// The size of a drawing in SVG units; a phone shows it at about three quarters of this size.
struct PlotArea {
  double width = 480;
  double height = 240;
  double left = 52;
  double right = 14;
  double top = 26;
  double bottom = 34;

  [[nodiscard]] double x(double place) const { return left + place * (width - left - right); }
  [[nodiscard]] double y(double place) const {
    return height - bottom - place * (height - top - bottom);
  }
};

/// Returns a number with at most two decimals: "12.5".
std::string coordinate(double value);
/// The colors of series, which the CSS classes "c0", "c1" ... of page.cpp set.
inline constexpr std::size_t kSeriesColors = 10;
/// Returns the CSS class of a series; the colors repeat after the last one.
std::string color_class(std::size_t number);

/// The point of a text that is at x.
enum class Anchor { start, middle, end };
constexpr std::array<const char*, 3> enum_names(Anchor) { return {"start", "middle", "end"}; }
Html svg_text(double x, double y, Anchor anchor, std::string_view text);
Html svg_title(std::string_view text);
Html svg_line(double x1, double y1, double x2, double y2);
/// Returns shapes in a group with one CSS class.
Html svg_group(std::string_view shape_class, const Html& shapes);
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};
Html svg_rect(std::string_view shape_class, const Box& box, const Html& content = {},
              const Attributes& more = {});

/// The grid, ticks and labels of both axes.
struct PlotLabels {
  std::string x;
  std::string y;
};
Html frame(const PlotArea& area, const Axis& x, const Axis& y, const PlotLabels& labels);

struct LegendEntry {
  std::string name;
  std::size_t color = 0;
  bool dashed = false;
};
/// Returns a legend; empty for fewer than two entries.
Html legend(const std::vector<LegendEntry>& entries);

/// The title of a chart, and a one-sentence description for screen readers.
struct PlotTitle {
  std::string title;
  std::string description;
};
/// Returns the figure around the shapes: heading, legend, drawing with its title and description.
Html figure(const PlotTitle& title, const Html& legend, const Html& svg);
/// Returns the drawing itself; `more` are additional attributes.
Html drawing(const PlotArea& area, const PlotTitle& title, const Html& shapes,
             const Attributes& more = {});

}  // namespace trainctl::report
