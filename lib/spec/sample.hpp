#pragma once

#include <array>
#include <cstdint>

// The kinds of samples that models and losses distinguish.

namespace trainctl::spec {

enum class Inputs { images, numbers, tokens };
constexpr std::array<const char*, 3> enum_names(Inputs) {
  return {"images", "rows of numbers", "tokens"};
}

enum class Targets { classes, numbers, tokens, pixels };
constexpr std::array<const char*, 4> enum_names(Targets) {
  return {"classes", "numbers", "tokens", "pixels"};
}

/// The field of samples whose image has one more channel, a mask: the class of each pixel.
inline constexpr const char* kPixels = "pixels";
/// The value of pixels in a mask that do not count.
inline constexpr int kIgnoredPixel = 255;

/// Numeric targets that are yes/no answers, 1 and 0, for a loss or a metric.
struct Answers {};

/// Returns whether a sample has one row of outputs, not one for each token or pixel.
constexpr bool has_one_row(Targets targets) {
  return targets == Targets::classes || targets == Targets::numbers;
}

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
