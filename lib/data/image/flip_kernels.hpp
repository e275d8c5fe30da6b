#pragma once

#include "data/image/flip.hpp"

#include <vector>

namespace trainctl::data {

/// Adds what the CPU offers beyond the scalar kernels, the fastest first: flip_x86.cpp, or nothing
/// elsewhere.
void add_vector_kernels(std::vector<MirrorKernels>& kernels);

}  // namespace trainctl::data
