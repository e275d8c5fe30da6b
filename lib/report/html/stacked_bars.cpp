#include "base/strings.hpp"
#include "report/html/charts.hpp"
#include "report/html/plot.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

constexpr std::size_t kMostBars = 60;

double usable(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

double value_at(const StackedBars::Part& part, std::size_t bar) {
  return bar < part.values.size() ? usable(part.values[bar]) : 0;
}

/// Neighbours joined to their means, where there are too many to be told apart.
StackedBars joined(const StackedBars& chart) {
  if (chart.bars.size() <= kMostBars) return chart;
  const std::size_t each = (chart.bars.size() + kMostBars - 1) / kMostBars;
  StackedBars few{.title = chart.title,
                  .x_label = chart.x_label,
                  .y_label = chart.y_label + fmt::format(", mean of {}", each),
                  .bars = {},
                  .parts = {}};
  for (const StackedBars::Part& part : chart.parts) few.parts.push_back({part.name, {}});
  for (std::size_t first = 0; first < chart.bars.size(); first += each) {
    const std::size_t end = std::min(first + each, chart.bars.size());
    few.bars.push_back(chart.bars[first] + "-" + chart.bars[end - 1]);
    for (std::size_t p = 0; p < chart.parts.size(); ++p) {
      double sum = 0;
      for (std::size_t i = first; i < end; ++i) sum += value_at(chart.parts[p], i);
      few.parts[p].values.push_back(sum / static_cast<double>(end - first));
    }
  }
  return few;
}

double height_of(const StackedBars& chart, std::size_t bar) {
  double sum = 0;
  for (const StackedBars::Part& part : chart.parts) sum += value_at(part, bar);
  return sum;
}

Html bar_of(const StackedBars& chart, std::size_t bar, const PlotArea& area, const Axis& y) {
  const auto count = static_cast<double>(chart.bars.size());
  const double each = 1 / count;
  const double gap = std::min(each * 0.25, 0.01);
  const double left = area.x(static_cast<double>(bar) * each + gap / 2);
  const double width = area.x(each - gap) - area.x(0);
  const double total = height_of(chart, bar);
  double below = 0;
  Html shapes;
  for (std::size_t p = 0; p < chart.parts.size(); ++p) {
    const double value = value_at(chart.parts[p], bar);
    if (value == 0) continue;
    const double top = area.y(y.place(below + value));
    const double height = area.y(y.place(below)) - top;
    below += value;
    const std::string text =
        fmt::format("{} {}: {} {} ({} %)", chart.x_label, chart.bars[bar], chart.parts[p].name,
                    human_duration(value), percent_text(value / total));
    shapes += element("rect",
                      {{"class", colour_class(p)},
                       {"x", coordinate(left)},
                       {"y", coordinate(top)},
                       {"width", coordinate(width)},
                       {"height", coordinate(height)}},
                      svg_title(text));
  }
  return shapes;
}

/// Every bar has a name, but not each is written.
Html names_below(const StackedBars& chart, const PlotArea& area) {
  const std::size_t every = (chart.bars.size() + 11) / 12;
  Html names;
  for (std::size_t i = 0; i < chart.bars.size(); i += every) {
    const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(chart.bars.size());
    names += svg_text(area.x(at), area.height - area.bottom + 15, Anchor::middle,
                      clip(chart.bars[i], 12));
  }
  return element("g", {{"class", "ticks"}}, names);
}

}  // namespace

Html stacked_bars(const StackedBars& whole) {
  StackedBars chart = joined(whole);
  std::erase_if(chart.parts, [](const StackedBars::Part& part) {
    return std::ranges::none_of(part.values, [](double value) { return usable(value) > 0; });
  });
  double highest = 0;
  for (std::size_t i = 0; i < chart.bars.size(); ++i)
    highest = std::max(highest, height_of(chart, i));
  if (!(highest > 0) || !std::isfinite(highest)) return {};
  const PlotArea area;
  const Axis y = linear_axis(0, highest, 5);
  Html shapes = frame(area, {.low = 0, .high = 1, .ticks = {}}, y, {chart.x_label, chart.y_label});
  Html bars;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) bars += bar_of(chart, i, area, y);
  shapes += element("g", {{"class", "bars"}}, bars) + names_below(chart, area);
  std::vector<LegendEntry> entries;
  std::vector<std::string> names;
  for (std::size_t p = 0; p < chart.parts.size(); ++p) {
    entries.push_back({chart.parts[p].name, p});
    names.push_back(chart.parts[p].name);
  }
  const PlotTitle title{chart.title,
                        fmt::format("{} bars of up to {}, stacked of {}", chart.bars.size(),
                                    human_duration(highest), join(names, ", "))};
  return figure(title, legend(entries), drawing(area, title, shapes));
}

}  // namespace trainctl::report
