#pragma once

#include "data/image/pixel_math.hpp"

namespace trainctl::data {

/// The reference, for any CPU.
const BlendKernels& portable_blend();

}  // namespace trainctl::data
