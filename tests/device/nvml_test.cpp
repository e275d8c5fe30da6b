#include "device/nvml.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("without the driver's library, or without a GPU, there is no meter, and no failure") {
  CHECK(device::make_gpu_meter("") == nullptr);
  CHECK(device::make_gpu_meter("00000000:01:00.0", "libno-such-nvml.so.1") == nullptr);
  CHECK(device::make_gpu_meter("00000000:01:00.0", "libm.so.6") == nullptr);
  CHECK(device::make_gpu_meter("ffffffff:ff:1f.0") == nullptr);
}
