#include "config/diagnostics.hpp"

#include "base/error.hpp"
#include "config/tree/yaml.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using config::Color;
using config::Diagnostics;
using config::make_source;
using config::Position;

TEST_CASE("Diagnostics: problems are sorted by position, without duplicates") {
  const auto source = make_source("a.yaml", "one: 1\ntwo: 2\n");
  Diagnostics diagnostics;
  diagnostics.error({source, 2, 1, 3}, "second");
  diagnostics.error({source, 1, 6, 1}, "first, at the value");
  diagnostics.error({source, 1, 1, 3}, "first");
  diagnostics.error({source, 2, 1, 3}, "second");
  const auto sorted = diagnostics.sorted();
  REQUIRE(sorted.size() == 3);
  CHECK(sorted[0].message == "first");
  CHECK(sorted[1].message == "first, at the value");
  CHECK(sorted[2].message == "second");
}

TEST_CASE("Diagnostics: a hint in the message is the problem's hint unless there is another") {
  Diagnostics diagnostics;
  diagnostics.add({.message = "the weights do not fit\nhint: set weights.prefix"});
  diagnostics.add({.message = "the file is old\nhint: convert it", .hint = "use another"});
  const auto problems = diagnostics.sorted();
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].message == "the weights do not fit");
  CHECK(problems[0].hint == "set weights.prefix");
  CHECK(problems[1].hint == "use another");
}

TEST_CASE("Diagnostics: a warning is counted and printed, but is not thrown") {
  const auto source = make_source("a.yaml", "one: 1\n");
  Diagnostics diagnostics;
  diagnostics.warning({source, 1, 6, 1}, "slow", "choose another");
  CHECK(diagnostics.error_count() == 0);
  CHECK_NOTHROW(diagnostics.throw_if_errors());
  CHECK(diagnostics.render() ==
        "a.yaml:1:6: warning: slow\n    1 | one: 1\n      |      ^ choose another\n1 warning in "
        "a.yaml\n");
}

TEST_CASE("Diagnostics: all errors are thrown as one config error") {
  Diagnostics diagnostics;
  diagnostics.error({}, "no device");
  diagnostics.error({}, "no data");
  try {
    diagnostics.throw_if_errors();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(error.message() == "error: no device\nerror: no data\n2 errors in the config\n");
  }
}

TEST_CASE("Diagnostics: the severity and the caret are colored") {
  const auto source = make_source("a.yaml", "one: 1\n");
  Diagnostics diagnostics;
  diagnostics.error({source, 1, 1, 3}, "bad", "good");
  const std::string text = diagnostics.render(Color::on);
  CHECK_THAT(text, Contains("\x1b[1;31merror:\x1b[0m"));
  CHECK_THAT(text, Contains("\x1b[1;32m^~~\x1b[0m good"));
}

TEST_CASE("Diagnostics: the caret is in place below tabs, wide characters and long lines") {
  const auto render = [](std::string_view line, int column, int length) {
    Diagnostics diagnostics;
    diagnostics.error({make_source("a", line), 1, column, length}, "m");
    return diagnostics.render();
  };
  CHECK_THAT(render("\tx: 1", 2, 1), Contains("    1 |     x: 1\n      |     ^\n"));
  CHECK_THAT(render("\xE6\x95\xB0: 1", 6, 1), StartsWith("a:1:4: error"));
  CHECK_THAT(render("\xE6\x95\xB0: 1", 6, 1), Contains("      |     ^\n"));
  CHECK_THAT(render("a\x1b[0m: 1", 8, 1), Contains("a\\x1b[0m: 1"));
  const std::string wide = std::string(300, 'a') + "X" + std::string(300, 'b');
  const std::string text = render(wide, 301, 1);
  CHECK_THAT(text, Contains("..."));
  CHECK(text.size() < 400);
  CHECK_THAT(render(wide, 601, 500), Contains("^"));
}

TEST_CASE("Diagnostics: many errors are printed in part and counted in full") {
  const auto source = make_source("a.yaml", "x: 1\n");
  Diagnostics diagnostics;
  for (int i = 0; i < 500; ++i) diagnostics.error({source, 1, 1, 1}, std::to_string(i));
  CHECK_THAT(diagnostics.render(), Contains("... and 450 more\n500 errors in a.yaml\n"));
}

TEST_CASE("Diagnostics: a position outside the text is reported") {
  Diagnostics diagnostics;
  diagnostics.error({make_source("a.yaml", "x"), 7, 9, 3}, "late", "hint");
  CHECK(diagnostics.render() == "a.yaml:7:9: error: late\n      | hint\n1 error in a.yaml\n");
}
