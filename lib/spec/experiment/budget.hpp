#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::spec {

/// A limit on bytes. In YAML a share of what is available (50%) or a number with a unit (8GiB,
/// 500MB).
struct Budget {
  std::optional<std::uint64_t> bytes;
  double share = 0.5;

  [[nodiscard]] std::uint64_t of(std::uint64_t available) const {
    return bytes.value_or(static_cast<std::uint64_t>(static_cast<double>(available) * share));
  }
  bool operator==(const Budget&) const = default;
};

/// Nothing where the text is no budget.
std::optional<Budget> parse_budget(std::string_view text);
/// As it would be written.
std::string to_text(const Budget& budget);

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Budget> {
  static FieldType type() { return {.type = ValueType::string}; }
  static void read(Reader& reader, const Node& node, const Field& field, spec::Budget& out);
  static Node write(const spec::Budget& budget) { return Node::scalar(spec::to_text(budget)); }
};
