#pragma once

#include "config/schema/codec.hpp"

#include <string>
#include <vector>

namespace trainctl::config {

/// A value that is in no file: `${secret:NAME}` in YAML, where NAME is an environment variable.
/// Only the reference is parsed, dumped and hashed; the value is looked up when it is used.
struct Secret {
  std::string name;

  /// Throws Error(config) if the variable is not set or empty.
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

/// Returns the text with credentials replaced by stars: the values of keys such as `secret_key` or
/// `password`, unless they are `${secret:NAME}`, and what without_credentials() replaces. The
/// length stays the same.
std::string without_secrets(std::string text);

/// Does the same for line `index` of a file, which may continue the value of an earlier line.
std::string line_without_secrets(const std::vector<std::string>& lines, std::size_t index);

}  // namespace trainctl::config
