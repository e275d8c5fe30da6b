#pragma once

#include "config/schema/codec.hpp"

#include <string>

namespace trainctl::config {

/// A value that no file holds: `${secret:NAME}` in YAML, where NAME is an environment variable.
/// What is parsed, dumped and hashed is the reference; the value is looked up where it is used.
struct Secret {
  std::string name;

  /// Throws Error(config) where the variable is not set, or empty.
  [[nodiscard]] std::string value() const;
  bool operator==(const Secret&) const = default;
};

template <>
struct Codec<Secret> {
  static FieldType type() { return {.type = ValueType::string}; }
  static void read(Reader& reader, const Node& node, const Field& field, Secret& out) {
    reader.secret(node, field, out.name);
  }
  static Node write(const Secret& secret) {
    return Node::scalar("${secret:" + secret.name + "}", true);
  }
};

}  // namespace trainctl::config
