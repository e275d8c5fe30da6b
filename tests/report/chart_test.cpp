#include "report/html/charts.hpp"
#include "report/html/line_chart.hpp"
#include "report/html/plot.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace trainctl::report;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

std::vector<std::string> texts_of(const Axis& axis) {
  std::vector<std::string> texts;
  for (const double tick : axis.ticks) texts.push_back(tick_text(tick, axis));
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("Axis: ticks are round numbers with distinct labels") {
  CHECK(texts_of(linear_axis(0.1, 0.93, 5)) == Texts{"0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(texts_of(linear_axis(0.958, 0.977, 5)) ==
        Texts{"0.955", "0.960", "0.965", "0.970", "0.975", "0.980"});
  CHECK(texts_of(linear_axis(0, 120000, 4)).back() == "150k");
  CHECK(texts_of(whole_axis(1, 5, 7)) == Texts{"1", "2", "3", "4", "5"});
  CHECK(texts_of(whole_axis(1, 938, 5)) == Texts{"200", "400", "600", "800"});
  CHECK(texts_of(log_axis(0.01, 10, 5)) == Texts{"0.01", "0.1", "1", "10"});
}

TEST_CASE("Axis: any range of numbers gives an extent and few ticks") {
  const double inf = std::numeric_limits<double>::infinity();
  const double largest = std::numeric_limits<double>::max();
  const std::vector<std::pair<double, double>> ranges{{0, 0},
                                                      {5, 5},
                                                      {-3, -3},
                                                      {inf, -inf},
                                                      {std::nan(""), 1},
                                                      {0, 1e-12},
                                                      {1e15, 1e15 + 1},
                                                      {-1, 1},
                                                      {-largest / 2, largest / 2}};
  for (const auto& [low, high] : ranges) {
    for (const Axis& axis :
         {linear_axis(low, high, 5), whole_axis(low, high, 5), log_axis(low, high, 5)}) {
      INFO(low << " to " << high);
      CHECK(axis.low < axis.high);
      CHECK(axis.ticks.size() <= 21);
      CHECK(std::ranges::is_sorted(axis.ticks));
    }
  }
}

TEST_CASE("thinned: keeps the ends, the extremes and the order") {
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 10000; ++i) {
    x.push_back(i);
    y.push_back(i == 6123 ? 50 : std::sin(i / 300.0));
  }
  const std::vector<std::size_t> kept = thinned(x, y, 200);
  CHECK(kept.size() == 200);
  CHECK(kept.front() == 0);
  CHECK(kept.back() == 9999);
  CHECK(std::ranges::is_sorted(kept));
  CHECK(std::ranges::adjacent_find(kept) == kept.end());
  CHECK(std::ranges::find(kept, 6123U) != kept.end());
  CHECK(thinned(std::span(x).first(3), std::span(y).first(3), 3) ==
        std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("line_chart: a line has gaps at non-finite values, and single points are visible") {
  const double nan = std::nan("");
  LineChart chart{.title = "loss", .x_label = "epoch", .y_label = "loss", .series = {}};
  chart.series.push_back({.name = "</svg>", .x = {1, 2, 3, 4, 5}, .y = {1, 2, nan, 3, nan}});
  const std::string text = line_chart(chart).markup();
  CHECK_THAT(text, Contains("d=\"M52 206L190 "));
  CHECK(count_of(text.substr(text.find(" d=\"")), "M") >= 2);
  CHECK(count_of(text, "<circle") == 3);
  CHECK_THAT(text, Contains("<title>&lt;/svg&gt;, epoch 4: 3.0000</title>"));
  CHECK(count_of(text, "</svg>") == 1);
}

TEST_CASE("line_chart: the description has the last value of each line") {
  LineChart chart{.title = "t", .x_label = "epoch", .y_label = "loss", .series = {}};
  chart.series.push_back({.name = "train", .x = {1, 2}, .y = {4, 0.5}});
  chart.series.push_back({.name = "val", .x = {1, 2}, .y = {2, std::nan("")}});
  CHECK_THAT(line_chart(chart).markup(),
             Contains("loss for epoch 1 to 2, with values from ") &&
                 Contains("; lines: train (last 0.5000), val (last 2.0000)<"));
}

TEST_CASE("charts: a chart without data is empty") {
  CHECK(line_chart({.title = "", .x_label = "", .y_label = "", .series = {}}).empty());
  const Series none{.name = "a", .x = {1, 2}, .y = {std::nan(""), HUGE_VAL}};
  CHECK(line_chart({.title = "", .x_label = "", .y_label = "", .series = {none}}).empty());
  CHECK(stacked_bars(
            {.title = "", .x_label = "", .y_label = "", .bars = {"1"}, .parts = {{"a", {0}}}})
            .empty());
  CHECK(heat_map({}).empty());
  CHECK(interval_rows({.title = "", .x_label = "", .rows = {}}).empty());
  CHECK(parallel_chart({}).empty());
}

TEST_CASE("charts: names that differ only at their ends are not shortened") {
  IntervalRows chart{.title = "t", .x_label = "seconds", .rows = {}};
  for (const char* pinned : {"false", "true"})
    chart.rows.push_back(
        {.name = std::string("num_workers=0, pin_memory=") + pinned, .value = 1.0});
  const std::string text = interval_rows(chart).markup();
  CHECK_THAT(text, Contains(">num_workers=0, pin_memory=false</text>") &&
                       Contains(">num_workers=0, pin_memory=true</text>"));
}

TEST_CASE("line_chart: values that span decades have a logarithmic axis") {
  LineChart chart{.title = "t", .x_label = "step", .y_label = "loss", .series = {}};
  chart.series.push_back({.name = "loss", .x = {1, 2}, .y = {100, 0.1}});
  chart.scale = AxisScale::automatic;
  CHECK_THAT(line_chart(chart).markup(), Contains("data-scale=\"log\"") && Contains("loss (log)"));
  chart.series[0].y = {100, 50};
  CHECK_THAT(line_chart(chart).markup(), Contains("data-scale=\"linear\""));
}

TEST_CASE("stacked_bars: parts fill the height, and many bars are merged") {
  StackedBars bars{.title = "t", .x_label = "epoch", .y_label = "s", .bars = {"1"}, .parts = {}};
  bars.parts = {{"data", {0.5}}, {"nothing", {0}}, {"forward", {1.5}}};
  const std::string text = stacked_bars(bars).markup();
  CHECK(count_of(text, "<rect") == 2);
  CHECK_THAT(text, Contains("epoch 1: forward 1.50 s (75 %)") && Contains("height=\"135\""));
  bars.bars.assign(500, "x");
  for (auto& part : bars.parts) part.values.assign(500, 1);
  CHECK(count_of(stacked_bars(bars).markup(), "<rect") <= 180);
}

TEST_CASE("heat_map: cells of a confusion matrix show their share of the row") {
  HeatMap map{.title = "val",
              .row_label = "class",
              .column_label = "called",
              .names = {"cat", "<dog>"},
              .counts = {{9, 1}, {0, 10}}};
  const std::string text = heat_map(map).markup();
  CHECK_THAT(text, Contains("class cat, called &lt;dog&gt;: 1 of 10 (10 %)"));
  CHECK(count_of(text, "fill-opacity") == 3);  // a zero is blank
  map.counts = {{1}, {2, 3}};
  CHECK(heat_map(map).empty());
}

TEST_CASE("parallel_chart: lines cross axes of numbers and of words") {
  ParallelChart chart{.title = "t",
                      .axes = {{"lr", {}, true}, {"optimizer", {"sgd", "adam"}}, {"val/loss"}},
                      .lines = {}};
  chart.lines = {{"a", {0.1, 0, 0.5}, 0}, {"b", {0.001, 1, std::nan("")}, 1}};
  const std::string text = parallel_chart(chart).markup();
  CHECK_THAT(text,
             Contains("class=\"shade0\"") && Contains("class=\"shade4\"") && Contains(">adam<"));
}
