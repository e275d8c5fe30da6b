#pragma once

#include "data/image/image.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace trainctl::data {

/// Images between the steps of one transform: a pair of buffers for each thread, kept from call to
/// call.
std::array<std::vector<std::uint8_t>, 2>& chain_buffers();

/// Bytes of them after a chain of so many steps on images of that shape.
inline std::uint64_t chain_bytes(const ImageShape& shape, std::int64_t steps) {
  return shape.bytes() * static_cast<std::uint64_t>(std::clamp<std::int64_t>(steps - 1, 0, 2));
}

/// Calls `step(k, input, output)` for k = 0 ... steps - 1, each on what the one before made.
template <class Step>
void run_chain(ImageView input, std::int64_t steps, ImageTarget& output, Step&& step) {
  if (steps == 0) return output.copy(input);
  auto& buffers = chain_buffers();
  for (std::int64_t k = 0; k + 1 < steps; ++k) {
    ImageTarget between(buffers[static_cast<std::size_t>(k % 2)]);
    step(k, input, between);
    input = between.view();
  }
  step(steps - 1, input, output);
}

}  // namespace trainctl::data
