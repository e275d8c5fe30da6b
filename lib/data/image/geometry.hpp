#pragma once

#include "data/image/image.hpp"
#include "spec/experiment/enums.hpp"

namespace trainctl::data {

/// The color for pixels outside of the source: one value for all channels, or one per channel.
class Fill {
 public:
  Fill() : values_{0} {}
  explicit Fill(const std::vector<int>& values);

  /// Throws Error(config) unless there is one value or one per channel.
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

/// How an image is padded.
struct Outside {
  spec::transform::PaddingMode mode = spec::transform::PaddingMode::constant;
  Fill fill;  // for `constant`
};

/// torchvision's pad followed by crop: returns `window` of the padded image. The window may lie
/// outside of the image. `reflect` and `symmetric` mirror once: at most the width and height of the
/// image.
void crop_padded(const ImageView& input, const Box& window, const Outside& outside,
                 ImageTarget& output);

/// torchvision's erase: sets the pixels of `box` to `value`.
void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output);

/// Mirrors a row of `width` pixels into `to`, which must not alias the row.
using MirrorRow = void (*)(const std::uint8_t* from, std::int64_t width, std::uint8_t* to);

/// One implementation of mirroring, for pixels of one and three bytes. All implementations give the
/// same bytes.
struct MirrorKernels {
  const char* name;
  MirrorRow one;
  MirrorRow three;
};

/// Returns the kernels that this CPU supports, fastest first; the scalar one is last. For tests and
/// benchmarks.
std::span<const MirrorKernels> mirror_kernels();

/// torchvision's horizontal_flip. `output` must not alias `input`.
void horizontal_flip(const ImageView& input, ImageTarget& output);
/// torchvision's vertical_flip. `output` must not alias `input`.
void vertical_flip(const ImageView& input, ImageTarget& output);

/// Returns the size of an image after the rotation for a TIFF or EXIF `orientation` (1 to 8).
Extents upright_extents(const Extents& stored, int orientation);

/// Writes a box of the upright image that `stored` gives after rotation; rows are contiguous.
void copy_upright(const ImageView& stored, int orientation, const Box& box, std::uint8_t* out);

/// Adds the vector kernels that the CPU supports, fastest first; none on CPUs other than x86.
void add_vector_kernels(std::vector<MirrorKernels>& kernels);

}  // namespace trainctl::data
