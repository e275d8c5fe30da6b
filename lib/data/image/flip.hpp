#pragma once

#include "data/image/image.hpp"

#include <cstdint>
#include <span>

namespace trainctl::data {

/// Mirrors a row of `width` pixels into `to`, which lies elsewhere.
using MirrorRow = void (*)(const std::uint8_t* from, std::int64_t width, std::uint8_t* to);

/// One implementation, for pixels of one and of three bytes. All give the same bytes.
struct MirrorKernels {
  const char* name;
  MirrorRow one;
  MirrorRow three;
};

/// Those that this CPU can run, the fastest first; the scalar one is last. For tests and
/// benchmarks.
std::span<const MirrorKernels> mirror_kernels();

/// torchvision's horizontal_flip. `output` must lie elsewhere.
void horizontal_flip(const ImageView& input, ImageTarget& output);
/// torchvision's vertical_flip. `output` must lie elsewhere.
void vertical_flip(const ImageView& input, ImageTarget& output);

}  // namespace trainctl::data
