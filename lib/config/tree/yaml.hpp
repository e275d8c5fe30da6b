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
inline constexpr std::size_t kMaxNodes = 100'000;  // aliases and interpolations expanded
inline constexpr std::size_t kMaxAliases = 100;
inline constexpr std::size_t kMaxKeys = 10'000;  // of one map
inline constexpr std::size_t kMaxKeyBytes = 256;

/// What a scalar counts against kMaxNodes: long texts count more, so that the cap bounds memory as
/// well.
constexpr std::size_t value_cost(std::string_view text) { return 1 + text.size() / 160; }

/// A text to point into. `folder` is where its relative paths start.
std::shared_ptr<const Source> make_source(std::string name, std::string_view text,
                                          std::filesystem::path folder = {});

/// Reads `text`, all of `source` or its end from `column` of its first line on, as one strict YAML
/// document: no duplicate keys, merge keys, tags, cycles or second document, and the caps above.
/// The result is broken where nothing could be read; with other problems it holds what is sound.
Node parse_yaml(const std::shared_ptr<const Source>& source, std::string_view text,
                Diagnostics& diagnostics, int column = 1);

}  // namespace trainctl::config
