#pragma once

#include "data/image/image.hpp"
#include "spec/experiment/enums.hpp"

namespace trainctl::data {

/// The color of pixels that come from nowhere: one value for all channels, or one for each.
class Fill {
 public:
  Fill() : values_{0} {}
  explicit Fill(const std::vector<int>& values);

  /// Throws Error(config) where there is neither one value nor one for each channel.
  void check(std::int64_t channels) const;
  [[nodiscard]] bool uniform() const { return values_.size() == 1; }
  [[nodiscard]] std::uint8_t operator[](std::int64_t channel) const {
    return values_[uniform() ? 0 : static_cast<std::size_t>(channel)];
  }
  /// Writes `count` pixels of that color.
  void paint(std::uint8_t* to, std::int64_t count, std::int64_t channels) const;

 private:
  std::vector<std::uint8_t> values_;
};

/// What stands outside an image.
struct Outside {
  spec::transform::PaddingMode mode = spec::transform::PaddingMode::constant;
  Fill fill;  // for `constant`
};

/// torchvision's pad followed by its crop: `window` of an image that goes on outside as `outside`
/// says; it may lie outside altogether. `reflect` and `symmetric` mirror once: not farther out than
/// the image is wide and high.
void crop_padded(const ImageView& input, const Box& window, const Outside& outside,
                 ImageTarget& output);

/// torchvision's erase: the pixels of `box` become `value`.
void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output);

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

/// Extents of an image once it is turned as `orientation` (TIFF's and EXIF's, 1 to 8) says.
Extents upright_extents(const Extents& stored, int orientation);

/// Writes a box of the image that `stored` is once it is turned; rows without gaps.
void copy_upright(const ImageView& stored, int orientation, const Box& box, std::uint8_t* out);

/// Adds what the CPU offers beyond the scalar kernels, the fastest first: nothing where it is not
/// x86.
void add_vector_kernels(std::vector<MirrorKernels>& kernels);

}  // namespace trainctl::data
