#include "base/machine/nvml.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("make_gpu_meter: it returns null without the driver's library or a GPU") {
  CHECK(make_gpu_meter("") == nullptr);
  CHECK(make_gpu_meter("00000000:01:00.0", "libno-such-nvml.so.1") == nullptr);
  CHECK(make_gpu_meter("00000000:01:00.0", "libm.so.6") == nullptr);
  CHECK(make_gpu_meter("ffffffff:ff:1f.0") == nullptr);
}

TEST_CASE("Nvml: a missing or wrong library is reported and gives no values") {
  const Nvml missing("libno-such-nvml.so.1");
  CHECK(missing.failure() == "libno-such-nvml.so.1 is not installed");
  const Nvml another("libm.so.6");
  CHECK_THAT(another.failure(), Contains("nvmlInit"));
  for (const Nvml* nvml : {&missing, &another}) {
    CHECK(nvml->gpus().empty());
    CHECK(nvml->driver().empty());
    CHECK_FALSE(nvml->cuda());
    CHECK_FALSE(nvml->mismatches());
    CHECK_FALSE(nvml->call("cos"));
  }
}
