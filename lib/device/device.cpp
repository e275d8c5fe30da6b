#include "device/device.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
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
