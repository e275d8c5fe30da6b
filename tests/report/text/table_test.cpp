#include "report/text/table.hpp"

#include "support/catch.hpp"
#include "support/golden.hpp"

#include <limits>

using namespace trainctl::report;

namespace {

Table sample() {
  Table table({{"technique", Align::left}, {"total"}, {"note", Align::left}});
  table.add({"workers=0", "12.1 s", "plain"});
  table.add({"größe=漢字", "3.04 s", "a|b, \"c\""});
  table.add({"workers=8"});
  return table;
}

}  // namespace

TEST_CASE("Table: renders as text, Markdown and CSV") {
  check_golden("report/table.txt", to_text(sample(), {.glyphs = Glyphs::unicode}));
  check_golden("report/table_ascii.txt", to_text(sample(), {}));
  check_golden("report/table.md", to_markdown(sample()));
  check_golden("report/table.csv", to_csv(sample()));
}

TEST_CASE("csv_cell: only cells that need quotes are quoted") {
  CHECK(csv_cell("plain") == "plain");
  CHECK(csv_cell("") == "");
  CHECK(csv_cell("a,b") == "\"a,b\"");
  CHECK(csv_cell("say \"hi\"") == "\"say \"\"hi\"\"\"");
  CHECK(csv_cell("two\nlines") == "\"two\nlines\"");
  CHECK(csv_cell("cr\r") == "\"cr\r\"");
  CHECK(csv_cell(" outer") == "\" outer\"");
}

TEST_CASE("display_width: counts columns of the terminal instead of bytes") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("größe") == 5);
  CHECK(display_width("漢字") == 4);
  CHECK(display_width("e\xcc\x81") == 1);
  CHECK(display_width("") == 0);
  CHECK(pad("漢", 4, Align::right) == "  漢");
  CHECK(clip("0123456789", 7) == "0123...");
  CHECK(clip("漢字漢字", 6) == "漢...");
  CHECK(clip("short", 7) == "short");
}

TEST_CASE("metric_text: numbers have the same format in every report") {
  CHECK(metric_text(0.07123) == "0.0712");
  CHECK(metric_text(0.97) == "0.9700");
  CHECK(metric_text(0) == "0.0000");
  CHECK(metric_text(0.0000123) == "1.23e-05");
  CHECK(metric_text(1234.56) == "1234.6");
  CHECK(metric_text(std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(report::exact_text(0.1) == "0.1");
  CHECK(report::exact_text(1.0 / 3) == "0.3333333333333333");
  CHECK(report::exact_text(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(rate_text(31214.4) == "31,214");
  CHECK(rate_text(6.66) == "6.7");
  CHECK(percent_text(0.314) == "31");
  CHECK(percent_text(0.0 / 0.0) == "-");
  CHECK(json_number(std::numeric_limits<double>::infinity()) == "inf");
}

TEST_CASE("json_value: metrics are an object in their order") {
  const std::vector<std::pair<std::string, double>> metrics{{"z", 1.0}, {"a", 2.0}};
  CHECK(json_value(metrics).dump() == R"({"z":1.0,"a":2.0})");
}

TEST_CASE("paint: text is colored only if colors are on") {
  CHECK(paint("x", Ink::red, {}) == "x");
  CHECK(paint("x", Ink::red, {.colors = Colors::on}) == "\x1b[31mx\x1b[0m");
}
