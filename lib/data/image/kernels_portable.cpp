#include "data/image/resize_kernels.hpp"

namespace trainctl::data {

const std::vector<ResizeKernels>& resize_kernels() {
  static const std::vector<ResizeKernels> all{scalar_resize()};
  return all;
}

}  // namespace trainctl::data
