#pragma once

#include "report/html/html.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::report {

/// A chart of stacked bars, such as the seconds of each epoch by part.
struct StackedBars {
  struct Part {
    std::string name;
    std::vector<double> values = {};  // one per bar; values that are not positive are left out
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<std::string> bars = {};
  std::vector<Part> parts = {};
};
/// Returns a figure. If there are more than 60 bars, neighbors are averaged. Empty if no value is
/// positive.
Html stacked_bars(const StackedBars& chart);

/// A confusion matrix: how many samples of each class (row) were predicted as which class (column).
struct HeatMap {
  std::string title;
  std::string row_label;
  std::string column_label;
  std::vector<std::string> names = {};  // of rows and columns
  std::vector<std::vector<std::int64_t>> counts = {};
};
/// Returns a figure whose cells are shaded by their fraction of the row. Empty for more than 64
/// classes, which would be unreadable.
Html heat_map(const HeatMap& chart);

/// Rows of a value with its interval, such as the speedups of a bench.
struct IntervalRows {
  struct Row {
    std::string name;
    std::optional<double> value = {};
    std::optional<double> low = {}, high = {};
    std::vector<double> points = {};  // the single measurements
  };
  std::string title;
  std::string x_label;
  std::vector<Row> rows = {};
  std::optional<double> reference = std::nullopt;  // position of a reference line, such as 1
};
/// Returns a figure with one line per row; empty if no row has a value.
Html interval_rows(const IntervalRows& chart);

/// A parallel-coordinates chart: one vertical axis per setting and result, one line per run.
struct ParallelChart {
  struct Axis {
    std::string name;
    std::vector<std::string> values = {};  // labels of a categorical axis; empty: numeric
    bool logarithmic = false;
  };
  struct Line {
    std::string name;
    std::vector<double> values = {};  // one per axis: a number, or an index into its labels; or NaN
    double shade = 0;                 // color of the line, from 0 (best) to 1 (worst)
  };
  std::string title;
  std::vector<Axis> axes = {};
  std::vector<Line> lines = {};
};
/// Returns a figure; empty for fewer than two axes or without lines.
Html parallel_chart(const ParallelChart& chart);

}  // namespace trainctl::report
