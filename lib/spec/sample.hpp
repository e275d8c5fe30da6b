#pragma once

#include <array>

// What samples are made of, as far as models and losses care.

namespace trainctl::spec {

enum class Inputs { images, numbers, tokens };
constexpr std::array<const char*, 3> enum_names(Inputs) {
  return {"images", "rows of numbers", "tokens"};
}

enum class Targets { classes, numbers, tokens };
constexpr std::array<const char*, 3> enum_names(Targets) {
  return {"classes", "numbers", "tokens"};
}

/// Numbers that are yes-or-no answers, 1 and 0: what a loss may learn them as, and a metric count.
struct Answers {};

struct SampleKind {
  Inputs inputs = Inputs::images;
  Targets targets = Targets::classes;
};

/// The labels of two samples in a row, each with its share: what batch_transforms make.
struct MixedLabels {};

}  // namespace trainctl::spec
