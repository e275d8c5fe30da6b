#pragma once

#include "base/clock.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::study {

/// Bytes that nobody holds, of each GPU of the machine by its number.
using FreeMemory = std::vector<std::uint64_t>;

/// As the driver's management library tells, which is asked in a child process. Empty where it does
/// not tell. Not while a job is being supervised.
FreeMemory free_device_memory(const std::string& library = "libnvidia-ml.so.1");

/// The same before the first start, where GPUs may be used and other starts may follow; else empty.
FreeMemory memory_before(const spec::Trainer& trainer);

/// How await_memory() asks and waits.
struct MemoryWait {
  std::function<FreeMemory()> probe;
  std::function<bool()> is_stopped;
  std::function<void()> pause;
  const Clock& clock;
  double most_s = 50;
};

/// The driver takes back what a killed process held some time after its end: waits until each GPU
/// has about as much free as `before`. False where that does not come in time, or is stopped.
bool await_memory(const FreeMemory& before, const MemoryWait& wait);

}  // namespace trainctl::study
