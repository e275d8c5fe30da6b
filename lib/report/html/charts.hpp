#pragma once

#include "report/html/html.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::report {

/// Bars that are stacked of parts, as the seconds of each epoch.
struct StackedBars {
  struct Part {
    std::string name;
    std::vector<double> values = {};  // one a bar; what is not above 0 is left out
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<std::string> bars = {};
  std::vector<Part> parts = {};
};
/// A figure. More than 60 bars are joined to means of neighbors. Nothing where nothing is above 0.
Html stacked_bars(const StackedBars& chart);

/// How many samples of each class (a row) were called what (a column).
struct HeatMap {
  std::string title;
  std::string row_label;
  std::string column_label;
  std::vector<std::string> names = {};  // of rows and columns
  std::vector<std::vector<std::int64_t>> counts = {};
};
/// A figure whose cells are as dark as their share of the row. Nothing for more than 64 classes,
/// which nobody can read.
Html heat_map(const HeatMap& chart);

/// Rows of a value with its interval, as speed-ups of a bench.
struct IntervalRows {
  struct Row {
    std::string name;
    std::optional<double> value = {};
    std::optional<double> low = {}, high = {};
    std::vector<double> points = {};  // what it was computed of
  };
  std::string title;
  std::string x_label;
  std::vector<Row> rows = {};
  std::optional<double> reference = std::nullopt;  // a line, as at 1
};
Html interval_rows(const IntervalRows& chart);

/// One vertical axis a setting and result, one line a run.
struct ParallelChart {
  struct Axis {
    std::string name;
    std::vector<std::string> values = {};  // of an axis of words; empty: of numbers
    bool logarithmic = false;
  };
  struct Line {
    std::string name;
    std::vector<double> values = {};  // one an axis: a number, or the place in its words; NaN: none
    double shade = 0;                 // 0 best to 1 worst: its color
  };
  std::string title;
  std::vector<Axis> axes = {};
  std::vector<Line> lines = {};
};
Html parallel_chart(const ParallelChart& chart);

}  // namespace trainctl::report
