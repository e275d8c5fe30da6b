#include "base/error.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"
#include "support/catch.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <cmath>
#include <limits>

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

TEST_CASE("kernels: machine code runs on later minor versions, and PTX on all later GPUs") {
  const auto runs = [](int architecture) {
    return device::kernels_run_on("80-real 90-real 100-real 120", architecture);
  };
  for (const int architecture : {80, 86, 89, 90, 100, 103, 120, 121, 130}) {
    CAPTURE(architecture);
    CHECK(runs(architecture));
  }
  for (const int architecture : {0, 61, 70, 75, 110}) {
    CAPTURE(architecture);
    CHECK_FALSE(runs(architecture));
  }
  CHECK(device::kernels_run_on("75-virtual", 80));
  CHECK_FALSE(device::kernels_run_on("75-real", 80));
  CHECK_FALSE(device::kernels_run_on("", 90));
  CHECK_FALSE(device::kernels_run_on("native all-major sm_90 90b", 90));
}

TEST_CASE("kernels: code with the suffix a runs on one architecture, and with f in its family") {
  for (const std::string code : {"", "-real", "-virtual"}) {
    CAPTURE(code);
    CHECK(device::kernels_run_on("90a" + code, 90));
    CHECK_FALSE(device::kernels_run_on("90a" + code, 100));
    CHECK(device::kernels_run_on("100f" + code, 100));
    CHECK(device::kernels_run_on("100f" + code, 103));
    CHECK_FALSE(device::kernels_run_on("100f" + code, 120));
    CHECK_FALSE(device::kernels_run_on("100f" + code, 90));
  }
}

TEST_CASE("kernels: there is nothing to report on a CPU") {
  CHECK(device::kernel_obstacle(at::kCPU).empty());
  CHECK(device::gpu_info(at::kCPU).architecture == 0);
}

TEST_CASE("choose_device: the allocator of a GPU has statistics before the first tensor", "[gpu]") {
  if (device::cuda_devices() == 0) skip("no GPU");
  const at::Device gpu = device::choose_device(spec::Accelerator::gpu, 0);
  CHECK(device::cuda_memory_mb(gpu).has_value());
  CHECK(device::cuda_available_memory(gpu).value_or(0) > 0);
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

TEST_CASE("product_error: a wrong element of a matrix product is found") {
  const at::Tensor a = at::randn({128, 96}, at::kFloat);
  const at::Tensor b = at::randn({96, 128}, at::kFloat);
  const at::Tensor product = at::mm(a, b);
  CHECK(device::product_error(a, b, product) < 1e-5);
  product[2][4] += 10;
  CHECK(device::product_error(a, b, product) == Approx(10 / std::sqrt(96)).epsilon(1e-3));
  product[2][4] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isinf(device::product_error(a, b, product)));
}
