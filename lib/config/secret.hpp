#pragma once

#include "config/schema/codec.hpp"

#include <string>
#include <vector>

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

/// Returns the text with stars over credentials: what follows a key such as `secret_key` or
/// `password`, unless it is a `${secret:NAME}`, and what without_credentials() covers. The length
/// stays the same.
std::string without_secrets(std::string text);

/// Returns line `index` of a file in the same way. It may belong to a key of a line above.
std::string line_without_secrets(const std::vector<std::string>& lines, std::size_t index);

}  // namespace trainctl::config
