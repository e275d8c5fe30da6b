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

TEST_CASE("Nvml: the state of a GPU includes what can stop or slow down training") {
  const std::vector<GpuState> gpus = Nvml(TRAINCTL_FAKE_NVML).gpus();
  REQUIRE(gpus.size() == 2);
  const GpuState& good = gpus[0];
  CHECK(good.uuid == "GPU-aa");
  CHECK(good.capability == "9.0");
  CHECK(good.persistence == true);
  CHECK(good.ecc == true);
  CHECK(good.memory_errors == 0);
  CHECK_FALSE(good.needs_reset);  // the GPU does not report it
  CHECK(good.temperature == 41);
  CHECK_FALSE((good.is_prohibited || good.is_exclusive || good.is_hot || good.is_power_limited));
  const GpuState& bad = gpus[1];
  CHECK(bad.persistence == false);
  CHECK(bad.memory_errors == 5);
  CHECK(bad.needs_reset == true);
  CHECK(bad.is_defective == false);
  CHECK((bad.is_prohibited && bad.is_hot && bad.is_power_limited));
}
