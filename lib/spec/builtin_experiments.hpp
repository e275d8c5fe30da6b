#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::spec {

/// An experiment that is part of the program: `builtin:NAME` stands for a file.
inline constexpr std::string_view kBuiltinPrefix = "builtin:";

struct BuiltinExperiment {
  std::string_view name;  // "quickstart"
  std::string_view yaml;  // of configs/NAME.yaml when the program was built
};

/// Returns the experiments that are part of the program.
const std::vector<BuiltinExperiment>& builtin_experiments();

/// Returns the text of `builtin:NAME`; nothing where `file` does not begin so. Throws Error(config)
/// for an unknown NAME.
std::optional<std::string_view> builtin_text(const std::string& file);

}  // namespace trainctl::spec
