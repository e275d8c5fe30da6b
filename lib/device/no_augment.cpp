#include "device/kernels.hpp"

namespace trainctl::device {

bool kernels_built() { return false; }

const char* launch_gather(const Gather& /*job*/, PixelOrder /*order*/, ValueType /*type*/,
                          void* /*out*/, void* /*stream*/) {
  return "this build has no kernels: no CUDA compiler was found when it was made";
}

}  // namespace trainctl::device
