#pragma once

#include <array>
#include <cstdint>

// The kinds of samples that models and losses distinguish.

namespace trainctl::spec {

enum class Inputs { images, numbers, tokens };
constexpr std::array<const char*, 3> enum_names(Inputs) {
  return {"images", "rows of numbers", "tokens"};
}

enum class Targets { classes, numbers, tokens };
constexpr std::array<const char*, 3> enum_names(Targets) {
  return {"classes", "numbers", "tokens"};
}

/// Numeric targets that are yes/no answers, 1 and 0, for a loss or a metric.
struct Answers {};

struct SampleKind {
  Inputs inputs = Inputs::images;
  Targets targets = Targets::classes;
  /// Size of the vocabulary of token inputs whose targets are no tokens; otherwise 0, because the
  /// number of outputs is then the vocabulary.
  std::int64_t vocab_size = 0;
  /// Token id that fills the ends of shorter token inputs; -1: there is no padding.
  std::int64_t padding_id = -1;
  bool operator==(const SampleKind&) const = default;
};

/// The labels of two mixed samples with their shares, which batch_transforms produce.
struct MixedLabels {};

}  // namespace trainctl::spec
