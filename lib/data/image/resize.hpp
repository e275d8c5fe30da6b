#pragma once

#include "data/image/image.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
#include <memory>

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

/// About the most bytes of weights that a thread keeps; beyond them its cache is cleared.
inline constexpr std::size_t kMostWeightsBytes = std::size_t{4} << 20;

/// From this thread's cache, which keeps those in recent use.
std::shared_ptr<const AxisWeights> axis_weights(const ResizeAxis& axis);

/// Bits behind the point of the values between the passes: 255 still fits into 16 signed bits.
constexpr int kMiddleBits = 7;
/// Most rows that one call of a horizontal kernel makes.
constexpr int kMostRows = 4;

/// The weighted sum of several rows, byte by byte.
struct VerticalJob {
  const std::uint8_t* const* rows = nullptr;  // 2 * pairs of them
  const std::int16_t* weights = nullptr;
  int pairs = 0;
  int precision = 0;
  std::int64_t count = 0;
  std::int16_t* out = nullptr;
};

/// The weighted sums along as many rows as the kernel makes, each followed by zeros for any load.
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
  int rows;  // that its horizontal pass makes at once
  void (*vertical)(const VerticalJob& job);
  void (*horizontal)(const HorizontalJob& job);
};

/// The reference.
const ResizeKernels& scalar_resize();
/// Those that this CPU can run, the reference first and the fastest last.
const std::vector<ResizeKernels>& resize_kernels();

/// Parts of the reference, for the ends that are narrower than a vector.
void vertical_from(const VerticalJob& job, std::int64_t first);
void horizontal_from(const HorizontalJob& job, std::int64_t first);

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
            const ResizeKernels& kernels = resize_kernels().back());

/// All of an image in another size.
void resize_whole(const ImageView& image, const Extents& size,
                  spec::transform::Interpolation interpolation, ImageTarget& output);

/// Bytes that a thread keeps for resizes of images up to that shape.
std::uint64_t resize_scratch_bytes(const ImageShape& input);

}  // namespace trainctl::data
