#include "base/error.hpp"
#include "device/device.hpp"
#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("choose_device: the CPU is used if requested") {
  CHECK(device::choose_device(spec::Accelerator::cpu, 0).is_cpu());
}

TEST_CASE("choose_device: a missing GPU is a resource error with a hint") {
  try {
    device::choose_device(spec::Accelerator::gpu, device::cuda_devices());
    FAIL("a device was chosen");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("trainer.accelerator=cpu"));
  }
}

TEST_CASE("resource usage: the values of this process are plausible") {
  const double before = device::cpu_seconds();
  volatile double work = 0;
  // Works until the CPU clock of the process advances.
  for (int i = 0; i < 2'000'000'000 && (i % 1'000'000 != 0 || device::cpu_seconds() <= before); ++i)
    work = work + i;
  CHECK(device::cpu_seconds() > before);
  CHECK(device::peak_rss_mb() > 1);
  CHECK(device::storage_bytes_read() >= 0);
}
