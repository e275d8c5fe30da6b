#include "support/growth.hpp"

#include "config/tree/yaml.hpp"
#include "support/catch.hpp"

#include <functional>
#include <string>

using namespace trainctl;

namespace {

/// Returns the growth of the time to read a document of `count` lines that `line` creates.
double growth_of(std::size_t count, const std::string& before,
                 const std::function<std::string(std::size_t)>& line,
                 const std::string& after = "") {
  const auto prepare = [&](std::size_t lines) {
    std::string text = before;
    for (std::size_t i = 0; i < lines; ++i) text += line(i);
    text += after;
    return [text] {
      config::Diagnostics diagnostics;
      (void)config::parse_yaml(config::make_source("growth.yaml", text), text, diagnostics);
      INFO(diagnostics.render());
      REQUIRE(diagnostics.error_count() == 0);
    };
  };
  return growth_per_doubling(prepare, count);
}

}  // namespace

TEST_CASE("growth: reading YAML is linear in keys, items, texts, aliases and comments") {
  const auto key = [](std::size_t i) { return "k" + std::to_string(i) + ": 1\n"; };
  CHECK(growth_of(300, "", key) <= kMostPerDoubling);
  const auto pair = [](std::size_t i) { return "k" + std::to_string(i) + ": 1, "; };
  CHECK(growth_of(300, "{", pair, "}") <= kMostPerDoubling);
  CHECK(growth_of(2'000, "", [](std::size_t) { return "- 1\n"; }) <= kMostPerDoubling);
  CHECK(growth_of(
            2'000, "[", [](std::size_t) { return "1, "; }, "]") <= kMostPerDoubling);
  CHECK(growth_of(1'000, "a: |\n", [](std::size_t) { return "  text\n"; }) <= kMostPerDoubling);
  CHECK(growth_of(
            1'000, "a: \"", [](std::size_t) { return "\\n\xc3\xa4"; }, "\"") <= kMostPerDoubling);
  CHECK(growth_of(3, "- &a 1\n", [](std::size_t) { return "- *a\n"; }) <= kMostPerDoubling);
  CHECK(growth_of(
            1'000, "", [](std::size_t) { return "# text\n"; }, "a: 1\n") <= kMostPerDoubling);
}

TEST_CASE("growth: reading YAML is linear in its errors") {
  const auto read = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "k" + std::to_string(i) + ": !tag 1\n";
    return [text] {
      config::Diagnostics diagnostics;
      (void)config::parse_yaml(config::make_source("growth.yaml", text), text, diagnostics);
      CHECK(diagnostics.error_count() > 0);
    };
  };
  CHECK(growth_per_doubling(read, 100) <= kMostPerDoubling);
}
