#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::data {

struct ResizeAxis;

/// Fixed-point weights of one axis. Output i is the sum over k of weights[i * 2 * pairs + k] times
/// the input at start[i] + k, divided by 2^precision; the weights of an output add up to exactly
/// that. `start` counts from `begin`.
struct AxisWeights {
  std::int64_t begin = 0;  // the inputs in use: [begin, end)
  std::int64_t end = 0;
  int pairs = 0;  // half the number of weights of an output, which is even: zeros fill up
  int precision = 0;
  std::vector<std::int32_t> start;
  std::vector<std::int16_t> weights;
};

/// Bytes of a thread's weights, about: beyond them it begins anew.
inline constexpr std::size_t kMostWeightsBytes = std::size_t{4} << 20;

/// From this thread's cache, which keeps those in recent use.
std::shared_ptr<const AxisWeights> axis_weights(const ResizeAxis& axis);

}  // namespace trainctl::data
