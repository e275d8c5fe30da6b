#include "study/resume/resolved_value.hpp"

#include "config/tree/tree_path.hpp"
#include "config/tree/yaml.hpp"

#include <charconv>
#include <system_error>

namespace trainctl::study {

std::optional<std::int64_t> resolved_number(const std::string& config, std::string_view path) {
  config::Diagnostics ignored;
  const config::Node tree =
      config::parse_yaml(config::make_source("config.resolved.yaml", config), config, ignored);
  const config::Node* node = config::find_path(tree, path);
  if (node == nullptr) return std::nullopt;
  const std::string& digits = node->text;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && number > 0
             ? std::optional(number)
             : std::nullopt;
}

}  // namespace trainctl::study
