#include "report/html/sweep_parallel.hpp"

#include "report/html/charts.hpp"
#include "report/html/swept_results.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::report {
namespace {

double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
}

struct SettingColumn {
  ParallelChart::Axis axis;
  std::vector<double> values;
};

/// Numbers where all values are; else words in the order in which they come up.
SettingColumn column_of(const Json& runs, const std::string& key) {
  SettingColumn column{.axis = {.name = key}, .values = {}};
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  bool numbers = true;
  std::vector<std::string> words;
  for (const Json& run : runs) {
    const std::string text = override_of(run, key);
    const double value = number_of(text);
    column.values.push_back(value);
    if (text.empty()) continue;
    numbers = numbers && std::isfinite(value);
    low = std::min(low, value);
    high = std::max(high, value);
    if (std::ranges::find(words, text) == words.end()) words.push_back(text);
  }
  if (numbers) {
    column.axis.logarithmic = low > 0 && high / low >= 20;
    return column;
  }
  column.axis.values = words;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto word = std::ranges::find(words, override_of(runs[i], key));
    column.values[i] =
        word == words.end() ? std::nan("") : static_cast<double>(word - words.begin());
  }
  return column;
}

}  // namespace

Html sweep_parallel(const Json& runs, const Objective& objective) {
  constexpr std::size_t kMostAxes = 9;
  std::vector<std::string> keys = keys_of(runs);
  keys.resize(std::min(keys.size(), kMostAxes));
  ParallelChart chart{.title = "Settings and " + objective.metric, .axes = {}, .lines = {}};
  std::vector<SettingColumn> columns;
  for (const std::string& key : keys) columns.push_back(column_of(runs, key));
  for (const SettingColumn& column : columns) chart.axes.push_back(column.axis);
  chart.axes.push_back({.name = objective.metric});
  const std::vector<double> shades = shades_of(runs, objective);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ParallelChart::Line line{
        .name = fmt::format("run {}: {} {}", run_id_of(runs[i]), objective.metric,
                            metric_text(result_of(runs[i], objective))),
        .values = {},
        .shade = shades[i]};
    for (const SettingColumn& column : columns) line.values.push_back(column.values[i]);
    line.values.push_back(result_of(runs[i], objective));
    for (const std::string& key : keys) line.name += ", " + key + "=" + override_of(runs[i], key);
    if (std::isfinite(line.values.back())) chart.lines.push_back(std::move(line));
  }
  return parallel_chart(chart);
}

}  // namespace trainctl::report
