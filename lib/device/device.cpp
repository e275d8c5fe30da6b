#include "device/device.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace trainctl::device {

c10::Device choose_device(spec::Accelerator accelerator, int local_rank) {
  if (accelerator == spec::Accelerator::cpu) return c10::kCPU;
  const int found = cuda_devices();
  if (accelerator == spec::Accelerator::automatic && found == 0) return c10::kCPU;
  ENSURE(resource, local_rank < found,
         "trainer.accelerator requires a GPU for local rank {}, but this machine has {} GPU{}\n"
         "hint: check the driver with 'trainctl doctor', lower trainer.devices, or set "
         "trainer.accelerator=cpu",
         local_rank, found, plural(found));
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  use_cuda_device(device);
  return device;
}

double product_error(const at::Tensor& a, const at::Tensor& b, const at::Tensor& product) {
  const std::int64_t size = a.size(1);
  const std::int64_t step = std::max<std::int64_t>(product.size(0) / 64, 1);
  const auto on_cpu = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
  const at::Tensor rows = on_cpu(a.slice(0, 0, std::nullopt, step));
  const at::Tensor columns = on_cpu(b.slice(1, 0, std::nullopt, step));
  const at::Tensor found =
      on_cpu(product.slice(0, 0, std::nullopt, step).slice(1, 0, std::nullopt, step));
  const double error = (found - at::mm(rows, columns)).abs().max().item<double>();
  return std::isnan(error) ? std::numeric_limits<double>::infinity()
                           : error / std::sqrt(static_cast<double>(size));
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

double rss_mb() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::int64_t storage_bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string key;
  std::int64_t value = 0;
  while (io >> key >> value) {
    if (key == "read_bytes:") return value;
  }
  return 0;
}

}  // namespace trainctl::device
