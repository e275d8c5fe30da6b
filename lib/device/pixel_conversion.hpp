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

/// What Gather::values points to: Widen's tables, and behind each the values of the two colors of
/// the images that a device keeps, if it does.
std::vector<float> gather_values(const FeedOptions& options, std::int64_t channels);

/// The part of a job that all batches have in common; `image` is the part of the feed. The images
/// are the kept ones, if there are any.
Gather gather_of(const FeedOptions& options, const FeedPart& image);

/// The kernel's work on a CPU, float32 and channels first.
void gather_on_host(const Gather& job, float* inputs_nchw);

}  // namespace trainctl::device
