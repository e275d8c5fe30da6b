#include "data/image/blend_portable.hpp"

namespace trainctl::data {

std::span<const BlendKernels> blend_kernels() { return {&portable_blend(), 1}; }

}  // namespace trainctl::data
