#pragma once

#include "data/image/blend.hpp"

namespace trainctl::data {

/// The reference, for any CPU.
const BlendKernels& portable_blend();

}  // namespace trainctl::data
