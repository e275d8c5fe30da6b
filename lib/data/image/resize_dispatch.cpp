#include "data/image/resize_x86_kernels.hpp"

namespace trainctl::data {

const std::vector<ResizeKernels>& resize_kernels() {
  static const std::vector<ResizeKernels> all = [] {
    std::vector<ResizeKernels> found{scalar_resize()};
    if (__builtin_cpu_supports("sse4.1")) found.push_back(sse4_resize());
    if (__builtin_cpu_supports("avx2")) found.push_back(avx2_resize());
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"))
      found.push_back(avx512_resize());
    return found;
  }();
  return all;
}

}  // namespace trainctl::data
