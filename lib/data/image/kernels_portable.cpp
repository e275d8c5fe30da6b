#include "data/image/geometry.hpp"
#include "data/image/pixel_math.hpp"
#include "data/image/resize.hpp"

namespace trainctl::data {

const std::vector<ResizeKernels>& resize_kernels() {
  static const std::vector<ResizeKernels> all{scalar_resize()};
  return all;
}

std::span<const BlendKernels> blend_kernels() { return {&portable_blend(), 1}; }

void add_vector_kernels(std::vector<MirrorKernels>&) {}

}  // namespace trainctl::data
