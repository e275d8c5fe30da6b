#pragma once

#include "config/schema/codec.hpp"
#include "config/tree/node.hpp"

#include <string>
#include <vector>

namespace trainctl::spec {

/// What a further attempt of a run that diverged changes: overrides as on the command line.
struct Fallback {
  std::vector<std::string> values;
  bool operator==(const Fallback&) const = default;
};

/// One of these overrides, and where it stands in the file: a text as a whole, of a map each key on
/// the way and the value.
struct FallbackChange {
  std::string text;
  std::vector<config::Position> places;
  /// The place of what stands in this column of the text, from 1.
  [[nodiscard]] config::Position place_of(int column) const;
};

/// What an entry of `on_divergence` changes: a text is an override, a map one for each of its
/// leaves ({optimizer: {lr: 0.01}} and {optimizer.lr: 0.01} are the same), a list has both.
std::vector<FallbackChange> changes_of(const config::Node& entry);

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::Fallback> {
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field, spec::Fallback& out);
  static Node write(const spec::Fallback& value);
};
