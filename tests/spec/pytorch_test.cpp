#include "base/json.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/schema/schema.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Compares the options of every stage with the signatures of the Python classes. The tables of
// docs/reference/pytorch.md list intended differences.

using namespace trainctl;

namespace {

const Json kRequired = {{"required", true}};

using Words = std::vector<std::string>;
using Options = std::map<std::string, Json>;  // name -> default

/// Returns the words in backticks.
Words code_of(const std::string& cell) {
  Words words;
  const std::vector<std::string> parts = split(cell, '`');
  for (std::size_t i = 1; i < parts.size(); i += 2) words.push_back(parts[i]);
  return words;
}

/// Returns the rows of the page's tables with this number of columns that begin with a stage.
std::vector<std::vector<std::string>> rows_of_page(std::size_t columns) {
  std::ifstream file(golden_folder() / "../../docs/reference/pytorch.md");
  REQUIRE(file.is_open());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> parts = split(line, '|');
    if (parts.size() == columns + 2) rows.emplace_back(parts.begin() + 1, parts.end() - 1);
  }
  return rows;
}

struct Difference {
  Words stages;  // "optimizer/adam", "optimizer/*"
  Words options;
  std::string pytorch, trainctl;  // a default, "required", "absent" or "any"
  std::set<std::string> used;     // options that differ in some stage
};

std::vector<Difference> listed_differences() {
  std::vector<Difference> rows;
  for (const auto& cells : rows_of_page(5)) {
    const Words defaults = code_of(cells[2] + cells[3]);
    REQUIRE(defaults.size() == 2);
    rows.push_back({code_of(cells[0]), code_of(cells[1]), defaults[0], defaults[1], {}});
  }
  return rows;
}

bool names(const Words& patterns, const std::string& stage) {
  const std::string kind = stage.substr(0, stage.find('/'));
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return pattern == stage || pattern == kind + "/*";
  });
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Json value_of(const std::string& text) {
  if (text == "required") return kRequired;
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? Json(text) : parsed;
}

Options described(const config::StageType& stage) {
  Options options;
  config::FieldsOfMap(stage, nullptr)
      .each([&](const config::Field& field, const config::Node& value) {
        options[field.key] = field.required ? kRequired : config::to_json(value);
      });
  return options;
}

/// Returns stage -> options of the Python class.
std::map<std::string, Options> signatures() {
  std::ifstream file(golden_folder() / "torch/signatures.json");
  const Json content = Json::parse(file);
  std::map<std::string, Options> all;
  for (const Json& row : content["stages"]) {
    Options& options = all[row["stage"]];
    for (const auto& [name, value] : row["parameters"].items()) options[lower(name)] = value;
  }
  return all;
}

/// Absent, null and an empty list are equivalent.
bool are_equivalent(const Json& one, const Json& other) {
  const auto empty = [](const Json& value) {
    return value.is_null() || (value.is_array() && value.empty());
  };
  return one == other || (empty(one) && empty(other));
}

bool fits(const std::string& cell, const std::optional<Json>& value) {
  if (cell == "any" || cell == "absent") return value.has_value() == (cell == "any");
  return value && are_equivalent(*value, value_of(cell));
}

std::string text_of(const std::optional<Json>& value) { return value ? value->dump() : "absent"; }

std::optional<Json> find(const Options& options, const std::string& name) {
  const auto found = options.find(name);
  return found == options.end() ? std::nullopt : std::optional(found->second);
}

/// Returns every stage of the program, as "optimizer/adam".
std::vector<std::pair<std::string, const config::StageType*>> all_stages() {
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  std::vector<std::pair<std::string, const config::StageType*>> all;
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& name : vocabulary.names(kind))
      all.emplace_back(kind + "/" + name, vocabulary.find(kind, name));
  }
  return all;
}

}  // namespace

TEST_CASE("stages: options and defaults are those of PyTorch except for listed differences",
          "[spec]") {
  const std::map<std::string, Options> python = signatures();
  std::vector<Difference> differences = listed_differences();
  REQUIRE(differences.size() > 40);
  for (const auto& [stage, type] : all_stages()) {
    if (!python.contains(stage)) continue;
    const Options own = described(*type);
    const Options& pytorch = python.at(stage);
    std::set<std::string> options;
    for (const auto& [name, value] : own) options.insert(name);
    for (const auto& [name, value] : pytorch) options.insert(name);
    for (const std::string& option : options) {
      const auto here = find(own, option);
      const auto there = find(pytorch, option);
      if (here && there && are_equivalent(*here, *there)) continue;
      bool is_listed = false;
      for (Difference& row : differences) {
        if (!names(row.stages, stage) || std::ranges::count(row.options, option) == 0) continue;
        if (!fits(row.pytorch, there) || !fits(row.trainctl, here)) continue;
        is_listed = true;
        row.used.insert(option);
      }
      INFO(fmt::format(
          "{}, option {}: {} in PyTorch, {} here; reference/pytorch.md does not list it", stage,
          option, text_of(there), text_of(here)));
      CHECK(is_listed);
    }
  }
  for (const Difference& row : differences) {
    for (const std::string& option : row.options) {
      INFO(fmt::format("docs/reference/pytorch.md lists {} of {}, which does not differ", option,
                       row.stages.front()));
      CHECK(row.used.contains(option));
    }
  }
}

TEST_CASE("stages: each has a PyTorch class or a reason for having none", "[spec]") {
  const std::map<std::string, Options> python = signatures();
  Words without;
  for (const auto& cells : rows_of_page(2)) {
    for (const std::string& pattern : code_of(cells[0])) without.push_back(pattern);
  }
  std::set<std::string> known;
  for (const auto& [stage, type] : all_stages()) {
    known.insert(stage);
    INFO(stage
         << ": add its class to tests/golden/make/signatures.py or a row to reference/pytorch.md");
    CHECK(python.contains(stage) != names(without, stage));
  }
  for (const auto& [stage, options] : python) {
    INFO(stage << " of tests/golden/torch/signatures.json is not a stage");
    CHECK(known.contains(stage));
  }
  for (const std::string& pattern : without) {
    INFO(pattern << " of docs/reference/pytorch.md is not a stage");
    CHECK((pattern.ends_with("/*") || known.contains(pattern)));
  }
}
