#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>

namespace trainctl::spec {

/// Samples a step on each device: a number, or `auto`, which `trainctl run` replaces by a number
/// before anything else sees it. Reads as a number everywhere; while it is `auto`, as the smallest
/// that is tried.
struct BatchSize {
  static constexpr std::int64_t kSmallest = 8;

  std::int64_t samples = 64;
  bool automatic = false;

  BatchSize() = default;
  BatchSize(std::int64_t number) : samples(number) {}  // NOLINT(google-explicit-constructor)
  operator std::int64_t() const { return samples; }    // NOLINT(google-explicit-constructor)
};

}  // namespace trainctl::spec

template <>
struct trainctl::config::Codec<trainctl::spec::BatchSize> {
  static FieldType type() {
    FieldType type = Codec<std::int64_t>::type();
    type.accepts_auto = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, spec::BatchSize& out) {
    out.automatic = Reader::is_auto(node);
    if (out.automatic) {
      out.samples = spec::BatchSize::kSmallest;
    } else {
      Codec<std::int64_t>::read(reader, node, field, out.samples);
    }
  }
  static Node write(const spec::BatchSize& value) {
    return value.automatic ? Node::scalar("auto") : Codec<std::int64_t>::write(value.samples);
  }
};
