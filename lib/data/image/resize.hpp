#pragma once

#include "data/image/image.hpp"
#include "data/image/resize_kernels.hpp"
#include "spec/transform/interpolation.hpp"

#include <cstdint>

namespace trainctl::data {

/// One axis of a resize: `input` pixels become `output` pixels, of which [first, first + count) are
/// wanted, each of one pixel or of all that it covers.
struct ResizeAxis {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  spec::transform::Interpolation interpolation = spec::transform::Interpolation::bilinear;
  auto operator<=>(const ResizeAxis&) const = default;

  static ResizeAxis whole(
      std::int64_t input, std::int64_t output,
      spec::transform::Interpolation how = spec::transform::Interpolation::bilinear) {
    return {input, output, 0, output, how};
  }
};

struct ResizePlan {
  ResizeAxis vertical;
  ResizeAxis horizontal;
};

/// The part of the input that the wanted pixels are made of.
Box resize_box(const ResizePlan& plan);

/// Bilinear with antialiasing, as torchvision's resize(antialias=True) on uint8: at most 1 level
/// away from it, since the value between the two passes is not rounded to 8 bits. `window` is the
/// image's resize_box(). Nearest is torchvision's to the byte. Writes rows without gaps. Every path
/// gives the same bytes.
void resize(const ImageView& window, const ResizePlan& plan, std::uint8_t* out,
            const ResizeKernels& kernels);
void resize(const ImageView& window, const ResizePlan& plan, std::uint8_t* out);

/// Bytes that a thread keeps for resizes of images up to that shape.
std::uint64_t resize_scratch_bytes(const ImageShape& input);

}  // namespace trainctl::data
