#pragma once

#include "report/html/html.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::report {

enum class LineLook { solid, dashed, faint };

/// One line. `x` ascends; a value that is not finite leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::size_t colour = 0;
  LineLook look = LineLook::solid;
};

/// logarithmic, and automatic where the values span more than a factor of 30: then values that are
/// not above 0 leave gaps.
enum class AxisScale { linear, logarithmic, automatic };

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
  AxisScale scale = AxisScale::linear;
  std::optional<double> y_from = std::nullopt;  // the axis begins there, or below
  std::optional<double> y_to = std::nullopt;    // and ends there, or above
};

/// A figure with the lines over whole numbers (epochs, steps). A line of many points is thinned to
/// a few hundred. Nothing where no value is finite.
Html line_chart(const LineChart& chart);

}  // namespace trainctl::report
