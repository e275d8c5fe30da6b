#pragma once

#include "data/image/image.hpp"
#include "spec/experiment/enums.hpp"

#include <memory>

namespace trainctl::data {

struct ResizeAxis;

/// Fixed-point weights of one axis. Output i is the sum over k of weights[i * 2 * pairs + k] times
/// input[start[i] + k], divided by 2^precision. The weights of an output sum to exactly
/// 2^precision. `start` is relative to `begin`.
struct AxisWeights {
  std::int64_t begin = 0;  // the inputs in use: [begin, end)
  std::int64_t end = 0;
  int pairs = 0;  // half the number of weights per output, padded with zeros to an even number
  int precision = 0;
  std::vector<std::int32_t> start;
  std::vector<std::int16_t> weights;
};

/// A thread's cache of weights is cleared when it exceeds about this many bytes.
inline constexpr std::size_t kMostWeightsBytes = std::size_t{4} << 20;

/// Returns weights from this thread's cache of recently used weights.
std::shared_ptr<const AxisWeights> axis_weights(const ResizeAxis& axis);

/// Fractional bits of the values between the passes, chosen so that 255 fits into a signed 16-bit
/// integer.
constexpr int kMiddleBits = 7;
/// The largest number of rows that one call of a horizontal kernel processes.
constexpr int kMostRows = 4;

/// A weighted sum of several rows, byte by byte.
struct VerticalJob {
  const std::uint8_t* const* rows = nullptr;  // 2 * pairs row pointers
  const std::int16_t* weights = nullptr;
  int pairs = 0;
  int precision = 0;
  std::int64_t count = 0;
  std::int16_t* out = nullptr;
};

/// Weighted sums along as many rows as the kernel processes. Each row is padded with zeros, so that
/// vector loads stay in bounds.
struct HorizontalJob {
  std::array<const std::int16_t*, kMostRows> in{};
  std::array<std::uint8_t*, kMostRows> out{};
  std::size_t rows = 0;
  const AxisWeights* axis = nullptr;
  std::int64_t channels = 3;
};

/// One implementation of the two passes.
struct ResizeKernels {
  const char* name;
  int rows;  // rows per call of the horizontal pass
  void (*vertical)(const VerticalJob& job);
  void (*horizontal)(const HorizontalJob& job);
};

/// Returns the scalar reference.
const ResizeKernels& scalar_resize();
/// Returns the kernels that this CPU supports: the reference first, the fastest last.
const std::vector<ResizeKernels>& resize_kernels();

/// Run the reference from output `first` on, for a remainder that is narrower than a vector.
void vertical_from(const VerticalJob& job, std::int64_t first);
void horizontal_from(const HorizontalJob& job, std::int64_t first);

/// One axis of a resize: `input` pixels become `output` pixels, of which [first, first + count) are
/// computed. `interpolation` decides whether each uses one input pixel or all that it covers.
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

/// A resize along both axes.
struct ResizePlan {
  ResizeAxis vertical;
  ResizeAxis horizontal;
};

/// Returns the part of the input that the requested output pixels depend on.
Box resize_box(const ResizePlan& plan);

/// Bilinear resize with antialiasing, like torchvision's resize(antialias=True) on uint8. It
/// differs by at most 1 level, because the values between the passes are not rounded to 8 bits.
/// Nearest is identical to torchvision. `window` is the resize_box() of the image. Writes
/// contiguous rows. All kernels give the same bytes.
void resize(const ImageView& window, const ResizePlan& plan, std::uint8_t* out,
            const ResizeKernels& kernels = resize_kernels().back());

/// Resizes a whole image.
void resize_whole(const ImageView& image, const Extents& size,
                  spec::transform::Interpolation interpolation, ImageTarget& output);

/// Returns the bytes that a thread keeps for resizing images up to that shape.
std::uint64_t resize_scratch_bytes(const ImageShape& input);

}  // namespace trainctl::data
