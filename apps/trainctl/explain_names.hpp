#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::app {

/// A name that is neither a key nor a stage: an exit code or a reported value.
struct NamedFact {
  std::string_view name;  // "6", "samples_per_s"
  std::string_view meaning;
};

/// Returns the exit code that `text` names: "6", "exit code 6", "exit 6".
std::optional<NamedFact> exit_code_called(const std::string& text);

/// Returns the value of tables, CSV and JSON files that `text` names; `val/accuracy` by its part
/// before the '/'.
std::optional<NamedFact> value_called(const std::string& text);

/// Returns all names of both, for suggestions.
std::vector<std::string> fact_names();

}  // namespace trainctl::app
