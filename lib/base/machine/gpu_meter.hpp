#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trainctl {

/// What a GPU has counted since the driver was loaded.
struct GpuCounters {
  std::optional<double> joules;
  std::optional<double> pcie_bytes;  // both ways; may wrap
};

/// What it does at this moment.
struct GpuMoment {
  std::optional<double> busy_percent;
  bool heat = false;   // its clocks are lowered, since it is hot
  bool brake = false;  // or since its power supply asks for it
};

/// A GPU as the driver's management library (NVML) sees it. Each call takes well under a
/// millisecond, none waits for the device.
class GpuMeter {
 public:
  virtual ~GpuMeter() = default;
  [[nodiscard]] virtual GpuCounters counters() const = 0;
  [[nodiscard]] virtual GpuMoment moment() const = 0;
  /// In watts, as it is enforced.
  [[nodiscard]] virtual std::optional<double> power_limit() const = 0;
};

/// `pci_bus`: "00000000:3b:00.0". Null where the library cannot be loaded, has other functions, or
/// does not know the GPU: nothing is said then.
std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& pci_bus,
                                         const std::string& library = "libnvidia-ml.so.1");

}  // namespace trainctl
