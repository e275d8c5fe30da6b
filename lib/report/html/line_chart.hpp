#pragma once

#include "report/html/html.hpp"

#include <optional>
#include <span>

namespace trainctl::report {

/// Returns the indices of at most `most` points, ascending, whose line looks like the line of all
/// points: the first, the last, and for each bucket in between the point that makes the largest
/// triangle with the previously chosen point and the mean of the next bucket (Steinarsson,
/// "Downsampling Time Series for Visual Representation", 2013). Returns all if there are at most
/// `most` points; `most` must be at least 3. `x` must ascend, and all values must be finite.
std::vector<std::size_t> thinned(std::span<const double> x, std::span<const double> y,
                                 std::size_t most);

enum class LineLook { solid, dashed, faint };

/// One line. `x` must ascend; a value that is not finite leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x = {};
  std::vector<double> y = {};
  std::size_t color = 0;
  LineLook look = LineLook::solid;
};

/// automatic is logarithmic if the values span more than a factor of 30; on a logarithmic axis,
/// values that are not positive leave gaps.
enum class AxisScale { linear, automatic };

/// The lines of a chart with their axes.
struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series = {};
  AxisScale scale = AxisScale::linear;
  std::optional<double> y_from = std::nullopt;  // the axis starts there or below
};

/// Returns a figure with the lines over integers (epochs, steps). A line with many points is
/// thinned to a few hundred. Empty if no value is finite.
Html line_chart(const LineChart& chart);

}  // namespace trainctl::report
