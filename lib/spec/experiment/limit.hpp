#pragma once

#include "config/schema/describe.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trainctl::spec {

/// How much of an epoch runs. In YAML an integer is a number of batches, a number with a point
/// (0.25, 1.0) a share of them, as in Lightning.
struct Limit {
  std::optional<std::int64_t> batches;
  double fraction = 1;

  /// The part of `total` batches that runs; a share above 0 leaves at least one.
  [[nodiscard]] std::int64_t of(std::int64_t total) const {
    if (batches) return std::min(*batches, total);
    const auto share = static_cast<std::int64_t>(static_cast<double>(total) * fraction);
    return fraction > 0 ? std::max<std::int64_t>(share, std::min<std::int64_t>(total, 1)) : 0;
  }
  bool operator==(const Limit&) const = default;
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Limit> {
  static FieldType type() { return {.type = ValueType::number}; }
  static void read(Reader& reader, const Node& node, const Field& field, spec::Limit& out);
  static Node write(const spec::Limit& limit);
};
