#pragma once

#include "data/image/resize_kernels.hpp"

namespace trainctl::data {

/// Vectors of 16 bytes: needs SSE4.1.
const ResizeKernels& sse4_resize();
/// Vectors of 32 bytes: needs AVX2.
const ResizeKernels& avx2_resize();

}  // namespace trainctl::data
