#include "report/epoch_table.hpp"

#include "report/invented.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <limits>

using namespace trainctl::report;

namespace {

std::string table_of(int width, Glyphs glyphs) {
  EpochTable table({.max_epochs = 5, .style = {.glyphs = glyphs, .width = width}});
  std::string text;
  for (int i = 0; i < 4; ++i) text += table.add(invented::epoch(i));
  return text;
}

int widest(const std::string& text) {
  int width = 0;
  for (const std::string& line : golden::lines_of(text)) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("the epoch table shows metrics, lr, time, budget and rate, with a mark on epochs that improved") {
  check_golden("report/epoch_table_120.txt", table_of(120, Glyphs::unicode));
  check_golden("report/epoch_table_ascii.txt", table_of(120, Glyphs::ascii));
}

TEST_CASE("a narrow terminal gets fewer budget columns, the empty ones first") {
  check_golden("report/epoch_table_80.txt", table_of(80, Glyphs::unicode));
  for (const int width : {120, 100, 80, 72}) CHECK(widest(table_of(width, Glyphs::unicode)) <= width);
  CHECK_THAT(table_of(100, Glyphs::ascii), !Contains(" h2d") && Contains(" fwd"));
}

TEST_CASE("the header is printed once") {
  EpochTable table({});
  CHECK_THAT(table.add(invented::epoch(0)), Contains("epoch"));
  CHECK_THAT(table.add(invented::epoch(1)), !Contains("epoch"));
}

TEST_CASE("metrics that are not finite or missing are shown as such") {
  EpochTable table({.metrics = {"train/loss", "val/loss"}});
  auto epoch = invented::epoch(0);
  epoch.metrics = {{"train/loss", std::numeric_limits<double>::quiet_NaN()}};
  epoch.timing.wall_s = 0;
  const std::string text = table.add(epoch);
  CHECK_THAT(text, Contains("nan         -"));
}

TEST_CASE("a metric's name cannot drive the terminal") {
  EpochTable table({.metrics = {"val/\x1b[2J"}});
  CHECK_THAT(table.add(invented::epoch(0)), Contains("val/\\x1b[2J"));
}
