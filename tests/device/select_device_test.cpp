#include "base/error.hpp"
#include "device/device.hpp"
#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("the CPU is taken where it is asked for") {
  CHECK(device::choose_device(spec::Accelerator::cpu, 0).is_cpu());
}

TEST_CASE("a GPU that is not there is a resource error that names the way out") {
  try {
    device::choose_device(spec::Accelerator::gpu, device::cuda_devices());
    FAIL("a device was chosen");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("trainer.accelerator=cpu"));
  }
}

TEST_CASE("probes of the process give amounts that make sense") {
  const double before = device::cpu_seconds();
  volatile double work = 0;
  // Works until the CPU clock of the process advances.
  for (int i = 0; i < 2'000'000'000 && (i % 1'000'000 != 0 || device::cpu_seconds() <= before); ++i)
    work = work + i;
  CHECK(device::cpu_seconds() > before);
  CHECK(device::peak_rss_mb() > 1);
  CHECK(device::storage_bytes_read() >= 0);
}
