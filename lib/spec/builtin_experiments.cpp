#include "spec/builtin_experiments.hpp"

#include "base/error.hpp"
#include "config/wording.hpp"

#include <algorithm>

namespace trainctl::spec {

std::optional<std::string_view> builtin_text(const std::string& file) {
  if (!file.starts_with(kBuiltinPrefix)) return std::nullopt;
  const std::string name = file.substr(kBuiltinPrefix.size());
  const auto& all = builtin_experiments();
  const auto found = std::ranges::find(all, name, &BuiltinExperiment::name);
  std::vector<std::string> names;
  for (const BuiltinExperiment& one : all) names.emplace_back(one.name);
  ENSURE(config, found != all.end(), "unknown built-in experiment {}; {}", config::quote(name),
         config::unknown_name_hint(name, names));
  return found->yaml;
}

}  // namespace trainctl::spec
