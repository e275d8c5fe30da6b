#include "data/image/flip.hpp"

#include "data/image/flip_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace trainctl::data {
namespace {

void mirror_one(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  std::reverse_copy(from, from + width, to);
}

void mirror_three(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  for (const std::uint8_t* pixel = from + 3 * (width - 1); pixel >= from; pixel -= 3, to += 3) {
    to[0] = pixel[0];
    to[1] = pixel[1];
    to[2] = pixel[2];
  }
}

std::vector<MirrorKernels> usable_kernels() {
  std::vector<MirrorKernels> kernels;
  add_vector_kernels(kernels);
  kernels.push_back({"scalar", mirror_one, mirror_three});
  return kernels;
}

void mirror_any(const ImageView& input, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = input.row(y) + (width - 1) * channels;
    std::uint8_t* to = output.row(y);
    for (std::int64_t x = 0; x < width; ++x, from -= channels, to += channels)
      std::copy_n(from, channels, to);
  }
}

}  // namespace

std::span<const MirrorKernels> mirror_kernels() {
  static const std::vector<MirrorKernels> kernels = usable_kernels();
  return kernels;
}

void horizontal_flip(const ImageView& input, ImageTarget& output) {
  static const MirrorKernels kernels = mirror_kernels().front();
  output.resize(input.shape);
  const auto [height, width, channels] = input.shape;
  if (channels != 1 && channels != 3) return mirror_any(input, output);
  const MirrorRow mirror = channels == 1 ? kernels.one : kernels.three;
  for (std::int64_t y = 0; y < height; ++y) mirror(input.row(y), width, output.row(y));
}

void vertical_flip(const ImageView& input, ImageTarget& output) {
  output.resize(input.shape);
  const std::int64_t height = input.shape.height;
  for (std::int64_t y = 0; y < height; ++y)
    std::memcpy(output.row(y), input.row(height - 1 - y), input.row_bytes());
}

}  // namespace trainctl::data
