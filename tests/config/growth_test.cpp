#include "support/growth.hpp"

#include "config/tree/load.hpp"
#include "config/tree/yaml.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

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

/// Returns the tree of a map of `count` keys.
config::Node map_of(std::size_t count, const std::function<std::string(std::size_t)>& line) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += line(i);
  config::Diagnostics diagnostics;
  config::Node tree =
      config::parse_yaml(config::make_source("growth.yaml", text), text, diagnostics);
  INFO(diagnostics.render());
  REQUIRE(diagnostics.error_count() == 0);
  return tree;
}

/// Returns a callable that applies the overrides to the tree and interpolates it.
std::function<void()> finishing(config::Node tree, std::vector<std::string> overrides = {}) {
  return [tree = std::move(tree), overrides = std::move(overrides)] {
    config::Diagnostics diagnostics;
    const config::Node finished = config::finish_tree(tree, overrides, diagnostics);
    INFO(diagnostics.render());
    CHECK(diagnostics.error_count() == 0);
  };
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

TEST_CASE("growth: merging files is linear in their keys") {
  for (const char* front : {"k", "other"}) {
    CAPTURE(front);
    const auto merging = [&](std::size_t count) {
      const auto lines = [](const std::string& name) {
        return [name](std::size_t i) { return name + std::to_string(i) + ": 1\n"; };
      };
      return [base = map_of(count, lines("k")), overlay = map_of(count, lines(front))] {
        (void)config::merge(base, overlay);
      };
    };
    CHECK(growth_per_doubling(merging, 300) <= kMostPerDoubling);
  }
}

TEST_CASE("growth: reading a file and the one it extends is linear in their keys") {
  const TempFolder folder;
  const auto loading = [&](std::size_t count) {
    const std::string number = std::to_string(count);
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "k" + std::to_string(i) + ": 1\n";
    put_text(folder / (number + "base.yaml"), text);
    put_text(folder / (number + ".yaml"), "extends: " + number + "base.yaml\n" + text);
    return [file = folder / (number + ".yaml")] {
      config::Diagnostics diagnostics;
      (void)config::load_files(file, diagnostics);
      CHECK(diagnostics.error_count() == 0);
    };
  };
  CHECK(growth_per_doubling(loading, 300) <= kMostPerDoubling);
}

TEST_CASE("growth: interpolation is linear in references and in their targets") {
  const auto to_each = [](std::size_t count) {
    return finishing(map_of(5 * count, [&](std::size_t i) {
      const std::string key = "a_key_with_a_rather_long_name_" + std::to_string(i % count);
      if (i < count) return key + ": 1\n";
      return (i == count ? "references:\n" : "") + ("- ${" + key) + "}\n";
    }));
  };
  CHECK(growth_per_doubling(to_each, 300) <= kMostPerDoubling);
  const auto in_one_text = [](std::size_t count) {
    return finishing(map_of(2, [&](std::size_t i) {
      std::string text = i == 0 ? "a: 1\n" : "b: \"";
      for (std::size_t n = 0; i == 1 && n < count; ++n) text += "${a}-";
      return i == 0 ? text : text + "\"\n";
    }));
  };
  CHECK(growth_per_doubling(in_one_text, 100) <= kMostPerDoubling);
}

TEST_CASE(
    "growth: references to keys that do not exist are linear in their number and in the keys") {
  const auto unknown = [](std::size_t count) {
    const config::Node tree = map_of(2 * count, [&](std::size_t i) {
      if (i < count) return "a_key" + std::to_string(i) + ": 1\n";
      return (i == count ? "references:\n" : "") + ("- ${a_kay" + std::to_string(i)) + "}\n";
    });
    return [tree] {
      config::Diagnostics diagnostics;
      (void)config::finish_tree(tree, {}, diagnostics);
      CHECK(diagnostics.error_count() > 0);
    };
  };
  CHECK(growth_per_doubling(unknown, 300) <= kMostPerDoubling);
}

TEST_CASE("interpolation: defaults of environment variables have a limit of nesting") {
  std::string text = "a: ";
  for (int i = 0; i < 1'000; ++i) text += "${env:TRAINCTL_NO_SUCH_VARIABLE,";
  text += "1" + std::string(1'000, '}') + "\n";
  config::Diagnostics diagnostics;
  (void)config::finish_tree(map_of(1, [&](std::size_t) { return text; }), {}, diagnostics);
  CHECK_THAT(diagnostics.render(), Contains("levels deep"));
}

TEST_CASE(
    "growth: overrides of a few keys are linear in their number and in the size of the file") {
  const auto key = [](std::size_t i) { return "k" + std::to_string(i) + ": 1\n"; };
  const auto many = [&](std::size_t count) {
    std::vector<std::string> overrides;
    for (std::size_t i = 0; i < count; ++i)
      overrides.push_back("k" + std::to_string(i % 8) + "=" + std::to_string(i));
    return finishing(map_of(8, key), std::move(overrides));
  };
  CHECK(growth_per_doubling(many, 30) <= kMostPerDoubling);
  const auto large = [&](std::size_t count) {
    return finishing(map_of(count, key), {"k1=2", "+new=3", "~k2", "++k3=4"});
  };
  CHECK(growth_per_doubling(large, 300) <= kMostPerDoubling);
}
