#pragma once

#include "device/feed.hpp"
#include "device/kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::device {

/// Converts uint8 to float32 like torchvision's ToTensor and Normalize: (x / 255 - mean) / std,
/// rounded after each operation. A byte has 256 values, so a table per channel gives the same bits
/// at memory speed.
class PixelConversion {
 public:
  /// Without a normalization: x / 255. Throws Error(config) unless mean and std have one value or
  /// `channels` values.
  PixelConversion(std::int64_t channels, const std::optional<data::Normalization>& normalization);

  /// `images_nhwc` has `rows` images of `pixels` x channels; `inputs_nchw` has as many floats.
  void operator()(std::span<const std::byte> images_nhwc, std::int64_t rows,
                  std::span<float> inputs_nchw) const;

  /// Returns the value of each byte for each channel.
  [[nodiscard]] const std::vector<std::array<float, 256>>& tables() const { return tables_; }

 private:
  std::vector<std::array<float, 256>> tables_;  // one per channel
};

/// Returns the memory for Gather::values: PixelConversion's tables, each followed by the values of
/// the two colors of images that the device stores.
std::vector<float> gather_values(const FeedOptions& options, std::int64_t channels);

/// Returns the members of the job that are the same for all batches; `image` is the part of the
/// feed. The images are those that the device stores, if there are any.
Gather gather_of(const FeedOptions& options, const FeedPart& image);

/// Does the work of gather_kernel on a CPU: float32, [N, C, H, W].
void gather_on_host(const Gather& job, float* inputs_nchw);

}  // namespace trainctl::device
