#pragma once

#include "data/image/resize_kernels.hpp"

namespace trainctl::data {

/// Vectors of 16 bytes: needs SSE4.1.
const ResizeKernels& sse4_resize();
/// Vectors of 32 bytes: needs AVX2.
const ResizeKernels& avx2_resize();
/// Vectors of 64 bytes: needs AVX-512 with its byte (BW) and multiply-add (VNNI) instructions.
const ResizeKernels& avx512_resize();

}  // namespace trainctl::data
