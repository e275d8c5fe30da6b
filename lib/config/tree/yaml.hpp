#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl::config {

inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 100'000;  // including expanded aliases and interpolations
inline constexpr std::size_t kMaxAliases = 100;
inline constexpr std::size_t kMaxKeys = 10'000;  // in one map
inline constexpr std::size_t kMaxKeyBytes = 256;

/// Returns how much a scalar counts toward kMaxNodes. Long texts count more, to bound memory as
/// well.
constexpr std::size_t value_cost(std::string_view text) { return 1 + text.size() / 160; }

/// Creates a source for positions. `folder` is the base of its relative paths.
std::shared_ptr<const Source> make_source(std::string name, std::string_view text,
                                          std::filesystem::path folder = {});

/// Parses `text`, which is all of `source` or the rest of its first line from `column` on, as one
/// strict YAML document: no duplicate keys, merge keys, tags, cycles or further documents, within
/// the limits above. The result is broken if nothing was parsed, or else contains the valid part.
Node parse_yaml(const std::shared_ptr<const Source>& source, std::string_view text,
                Diagnostics& diagnostics, int column = 1);

}  // namespace trainctl::config
