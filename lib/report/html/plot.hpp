#pragma once

#include "report/html/html.hpp"

namespace trainctl::report {

enum class AxisScaling { linear, logarithmic };

/// An axis from `low` to `high` with the values that are written at it, ascending, within it.
struct Axis {
  double low = 0;
  double high = 1;
  AxisScaling scaling = AxisScaling::linear;
  std::vector<double> ticks = {};

  /// Where the value lies: 0 at `low`, 1 at `high`. NaN of what has no place on it.
  [[nodiscard]] double place(double value) const;
};

/// Widened to whole steps of 1, 2 or 5 times a power of ten; about `most` ticks and never more than
/// `most` + 2. Without a finite value, or with one value only, it still has an extent.
Axis linear_axis(double low, double high, int most);
/// Powers of ten, and 2 and 5 times them where there are few. `low` is above 0.
Axis log_axis(double low, double high, int most);
/// Whole numbers alone: epochs, steps. Not widened.
Axis whole_axis(double low, double high, int most);

/// A tick with as many decimals as its neighbors need to differ: "0.05", "1,500", "2e-05", "15k".
std::string tick_text(double value, const Axis& axis);

// What the charts share: the frame with its axes, the legend, numbers of SVG.

/// Units of the drawing; a phone shows it at about three quarters of its size.
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

/// With two decimals at most: "12.5".
std::string coordinate(double value);
/// "c0" ... "c8": the classes that give series their colors; they begin anew behind the last.
std::string color_class(std::size_t number);

enum class Anchor { start, middle, end };
Html svg_text(double x, double y, Anchor anchor, std::string_view text);
Html svg_title(std::string_view text);
Html svg_line(double x1, double y1, double x2, double y2);
/// Shapes of one class.
Html svg_group(std::string_view shape_class, const Html& shapes);
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};
Html svg_rect(std::string_view shape_class, const Box& box, const Html& content = {},
              const Attributes& more = {});

/// Grid, ticks and labels of both axes.
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
/// A list; nothing for fewer than two entries.
Html legend(const std::vector<LegendEntry>& entries);

/// What a chart is called, and its content in one sentence for those who do not see it.
struct PlotTitle {
  std::string title;
  std::string description;
};
/// The figure around the shapes: heading, legend, drawing with its title and description.
Html figure(const PlotTitle& title, const Html& legend, const Html& svg);
/// The drawing itself. `more` are further attributes.
Html drawing(const PlotArea& area, const PlotTitle& title, const Html& shapes,
             const Attributes& more = {});

}  // namespace trainctl::report
