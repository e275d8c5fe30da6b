#pragma once

#include "base/random.hpp"
#include "data/image/image.hpp"

#include <cstdint>

namespace trainctl::data {

constexpr int kMixSteps = 256;

/// How each image of a batch and its partner become two others. Both are mixed in the same way.
struct Mix {
  int own = kMixSteps;  // of each byte: own / 256 of itself, the rest of its partner's
  Box swapped;          // pixels that the two exchange; none where its height or width is 0
  float lambda = 1;     // share of the label that is the image's own, exactly what the pixels got
};

/// Decides how the rows of one batch are mixed. Stateless; `rng` is keyed by (seed, epoch, global
/// batch).
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  [[nodiscard]] virtual Mix draw(const ImageShape& image, CounterRng& rng) const = 0;
};

}  // namespace trainctl::data
