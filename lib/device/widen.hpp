#pragma once

#include "data/core/transform.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::device {

/// uint8 to float32 as torchvision's ToTensor and Normalize do it: (x / 255 - mean) / std, each
/// step rounded. A byte has 256 values, so the arithmetic is done once per channel and a table
/// gives the same bits at the speed of memory.
class Widen {
 public:
  /// Without a normalization: x / 255. Throws Error(config) unless mean and std have one value or
  /// `channels`.
  Widen(std::int64_t channels, const std::optional<data::Normalization>& normalization);

  /// images_nhwc: `rows` images of `pixels` x channels; inputs_nchw: as many floats.
  void operator()(std::span<const std::byte> images_nhwc, std::int64_t rows,
                  std::span<float> inputs_nchw) const;

  /// The value of each byte, for each channel.
  [[nodiscard]] const std::vector<std::array<float, 256>>& tables() const { return tables_; }

 private:
  std::vector<std::array<float, 256>> tables_;  // one a channel
};

}  // namespace trainctl::device
