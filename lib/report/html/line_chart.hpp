#pragma once

#include "report/html/html.hpp"

#include <optional>
#include <span>

namespace trainctl::report {

/// Indices of at most `most` points, ascending, whose line looks like that of all: the first, the
/// last, and of each bucket between the point that makes the largest triangle with the one chosen
/// before it and the mean of the next bucket (Steinarsson, "Downsampling Time Series for Visual
/// Representation", 2013). All of them where there are no more than `most`, which is at least 3.
/// `x` ascends; all values are finite.
std::vector<std::size_t> thinned(std::span<const double> x, std::span<const double> y,
                                 std::size_t most);

enum class LineLook { solid, dashed, faint };

/// One line. `x` ascends; a value that is not finite leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x = {};
  std::vector<double> y = {};
  std::size_t color = 0;
  LineLook look = LineLook::solid;
};

/// logarithmic, and automatic where the values span more than a factor of 30: then values that are
/// not above 0 leave gaps.
enum class AxisScale { linear, logarithmic, automatic };

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series = {};
  AxisScale scale = AxisScale::linear;
  std::optional<double> y_from = std::nullopt;  // the axis begins there, or below
  std::optional<double> y_to = std::nullopt;    // and ends there, or above
};

/// A figure with the lines over whole numbers (epochs, steps). A line of many points is thinned to
/// a few hundred. Nothing where no value is finite.
Html line_chart(const LineChart& chart);

}  // namespace trainctl::report
