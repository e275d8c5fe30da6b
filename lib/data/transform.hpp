#pragma once

#include "base/philox.hpp"
#include "data/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::data {

/// Per-channel scale that the device applies when it widens uint8: (x / 255 - mean) / std.
struct Normalization {
  std::vector<float> mean;
  std::vector<float> std;
  bool operator==(const Normalization&) const = default;
};

/// One step on one uint8 HWC image. Stateless; called from several threads at once. All its randomness comes from
/// `rng`, which is keyed by (seed, epoch, global position, place in the list).
class Transform {
 public:
  virtual ~Transform() = default;
  /// Shape after the step, or Error(config) where it cannot take this shape. Called once, at start.
  [[nodiscard]] virtual Field output(const Field& input) const = 0;
  virtual void apply(std::span<const std::byte> input, const Field& from, std::span<std::byte> output, const Field& to,
                     CounterRng& rng) const = 0;
};

}  // namespace trainctl::data
