#include "data/image/flip_kernels.hpp"

namespace trainctl::data {

void add_vector_kernels(std::vector<MirrorKernels>&) {}

}  // namespace trainctl::data
