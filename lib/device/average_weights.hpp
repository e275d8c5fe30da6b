#pragma once

#include "device/row_math.hpp"

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

constexpr std::int64_t kChunk = 16384;  // the most numbers of a chunk

/// A part of a parameter and of its average, both aligned to kPackBytes.
struct AverageChunk {
  float* average;
  const float* weight;
  std::int64_t count;
};

/// Moves averages toward the weights, like torch.lerp: average += share * (weight - average). All
/// parameters are one launch.
struct AverageWeights {
  const AverageChunk* chunks = nullptr;  // in the memory of the device
  std::int64_t count = 0;                // chunks
  float share = 0;
};

/// Follows the steps of torch.lerp, which is exact for a share of 1.
TRAINCTL_HOST_DEVICE float lerp(float average, float weight, float share) {
  const float difference = weight - average;
  return share < 0.5F ? average + share * difference : weight - difference * (1 - share);
}

/// Updates the lane's part of the chunk.
TRAINCTL_HOST_DEVICE void lane_average(const AverageChunk& chunk, float share, int lane,
                                       int lanes) {
  constexpr int kCount = kPackOf<float>;
  const std::int64_t packs = chunk.count / kCount;
  for (std::int64_t i = lane; i < packs; i += lanes) {
    Pack<float, kCount> average = load<kCount>(chunk.average + i * kCount);
    const Pack<float, kCount> weight = load<kCount>(chunk.weight + i * kCount);
    for (int j = 0; j < kCount; ++j)
      average.values[j] = lerp(average.values[j], weight.values[j], share);
    store<kCount>(chunk.average + i * kCount, average);
  }
  for (std::int64_t i = packs * kCount + lane; i < chunk.count; i += lanes)
    chunk.average[i] = lerp(chunk.average[i], chunk.weight[i], share);
}

/// Returns the bytes of device memory that an update of so many numbers has to move.
inline std::int64_t average_traffic(std::int64_t numbers) { return 3 * 4 * numbers; }

/// Does the work of the kernel on a CPU.
void average_weights_on_host(const AverageWeights& job);

}  // namespace trainctl::device
