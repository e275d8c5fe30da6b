#include "report/invented.hpp"
#include "report/sinks/console_sink.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

using namespace trainctl;
using namespace trainctl::report;

namespace {

std::string table_of(int width, Glyphs glyphs) {
  EpochTable table({.max_epochs = 5, .style = {.glyphs = glyphs, .width = width}});
  std::string text;
  for (int i = 0; i < 4; ++i) text += table.add(invented::epoch(i));
  return text;
}

const std::vector<std::string> kSix{"train/loss", "train/accuracy", "train/f1",
                                    "val/loss",   "val/accuracy",   "val/f1"};

events::EpochEnded with_six_metrics() {
  auto epoch = invented::epoch(0);
  epoch.metrics.clear();
  for (const std::string& name : kSix) epoch.metrics.emplace_back(name, -12345.678);
  return epoch;
}

/// Returns the sum of the first row's cells in the columns of the parts of the time.
int sum_of_parts(const std::string& text) {
  const std::vector<std::string> lines = golden::lines_of(text);
  const auto rule =
      std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("---"); });
  std::istringstream names(*(rule - 1));
  std::istringstream cells(*(rule + 1));
  int sum = 0;
  std::string cell;
  for (std::string name; names >> name && cells >> cell;) {
    if (name == "time") cells >> cell;  // the cell has two words, such as "2.50 s"
    const bool has_column = std::ranges::any_of(
        events::kTimingPhases, [&](const auto& phase) { return phase.column == name; });
    if (has_column || name == "other") sum += std::stoi(cell);
  }
  return sum;
}

int widest(const std::string& text) {
  int width = 0;
  for (const std::string& line : golden::lines_of(text))
    width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("EpochTable: shows metrics, lr, time, parts and rate, and marks improved epochs") {
  check_golden("report/epoch_table_120.txt", table_of(120, Glyphs::unicode));
  check_golden("report/epoch_table_ascii.txt", table_of(120, Glyphs::ascii));
}

TEST_CASE("EpochTable: a narrow terminal merges the smallest parts of the time into 'other'") {
  check_golden("report/epoch_table_80.txt", table_of(80, Glyphs::unicode));
  CHECK_THAT(table_of(100, Glyphs::ascii),
             !Contains(" h2d") && Contains(" fwd") && Contains("samples/s"));
  CHECK_THAT(table_of(80, Glyphs::ascii),
             Contains(" bwd") && Contains(" other") && Contains("samples/s"));
}

TEST_CASE("EpochTable: no line is wider than the terminal") {
  for (int width = 20; width <= 160; ++width) {
    EpochTable table({.max_epochs = 1000,
                      .metrics = kSix,
                      .style = {.glyphs = Glyphs::unicode, .width = width}});
    auto slow = with_six_metrics();
    slow.timing.wall_s = 3723;
    slow.lr = 1.2345678e-5;
    const std::string text = table.add(with_six_metrics()) + table.add(slow);
    CHECK(widest(text) <= width);
  }
}

TEST_CASE("EpochTable: the parts of the time sum to 100 % at any width") {
  for (int width = 72; width <= 160; ++width) {
    EpochTable table({.style = {.glyphs = Glyphs::ascii, .width = width}});
    auto epoch = invented::epoch(0);
    epoch.timing = {.wall_s = 0.042,
                    .forward_s = 0.003,
                    .backward_s = 0.002,
                    .eval_s = 0.035,
                    .other_s = 0.002};
    CHECK(std::abs(sum_of_parts(table.add(epoch)) - 100) <= 4);
  }
}

TEST_CASE("EpochTable: captured steps have a column, also if the first epoch replays none") {
  EpochTable eager({.style = {.glyphs = Glyphs::ascii, .width = 160}});
  CHECK_THAT(eager.add(invented::epoch(0)), !Contains("graph"));
  EpochTable table({.style = {.glyphs = Glyphs::ascii, .width = 160}, .shows_graphs = true});
  events::EpochEnded epoch = invented::epoch(0);
  epoch.timing = {.wall_s = 4, .forward_s = 1, .other_s = 3};
  const std::string first = table.add(epoch);
  CHECK_THAT(first, Contains(" graph"));
  CHECK(sum_of_parts(first) == 100);
  epoch.timing = {.wall_s = 4, .forward_s = 1, .graph_s = 2, .other_s = 1};
  CHECK_THAT(table.add(epoch), Contains("50"));
}

TEST_CASE("EpochTable: training metrics are dropped before parts of the time") {
  EpochTable table({.metrics = kSix, .style = {.glyphs = Glyphs::ascii, .width = 120}});
  const std::string text = table.add(with_six_metrics());
  CHECK_THAT(text, !Contains("train/accuracy") && Contains("train/loss") && Contains("val/f1") &&
                       Contains(" bwd"));
}

TEST_CASE("EpochTable: the header is printed once") {
  EpochTable table({});
  CHECK_THAT(table.add(invented::epoch(0)), Contains("epoch"));
  CHECK_THAT(table.add(invented::epoch(1)), !Contains("epoch"));
}

TEST_CASE("EpochTable: non-finite metrics are shown as nan and missing ones as -") {
  EpochTable table({.metrics = {"train/loss", "val/loss"}});
  auto epoch = invented::epoch(0);
  epoch.metrics = {{"train/loss", std::numeric_limits<double>::quiet_NaN()}};
  epoch.timing.wall_s = 0;
  const std::string text = table.add(epoch);
  CHECK_THAT(text, Contains("nan         -"));
}

TEST_CASE("EpochTable: control characters in metric names are escaped") {
  EpochTable table({.metrics = {"val/\x1b[2J"}});
  CHECK_THAT(table.add(invented::epoch(0)), Contains("val/\\x1b[2J"));
}
