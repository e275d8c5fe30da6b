#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::study {

/// A positive whole number of the text of a config.resolved.yaml, as "loader.batch_size"; nothing
/// where none stands there.
std::optional<std::int64_t> resolved_number(const std::string& config, std::string_view path);

}  // namespace trainctl::study
