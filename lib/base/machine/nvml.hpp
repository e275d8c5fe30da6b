#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

/// A GPU as NVIDIA's management library tells; absent: it does not.
struct GpuState {
  int index = 0;
  std::string name;
  std::optional<double> percent;  // of the time that it computed
  std::uint64_t used_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::optional<int> pcie_generation;  // now; falls where the card is idle
  std::optional<int> pcie_generation_max;
  std::optional<int> pcie_width;  // lanes
  std::optional<int> pcie_width_max;
  int nvlinks = 0;  // that are active
};

/// NVIDIA's management library, loaded at run time and never linked; nothing is there where it is
/// not installed.
class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Why there is none; empty: it answers.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Whether the library is not that of the driver: programs of CUDA do not start then.
  [[nodiscard]] bool mismatches() const { return mismatches_; }
  [[nodiscard]] std::string driver() const;       // "580.95.05"; empty: not known
  [[nodiscard]] std::optional<int> cuda() const;  // 13000 for 13.0
  [[nodiscard]] std::vector<GpuState> gpus() const;

  /// Calls a function of the library, whose parameters have the types of the arguments. Returns
  /// false where the library has none of that name, or it fails.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (!works_) return false;
    const auto function = reinterpret_cast<int (*)(Arguments...)>(symbol(name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] GpuState state_of(int index, void* device) const;

  void* library_ = nullptr;
  bool works_ = false;
  bool mismatches_ = false;
  std::string failure_;
};

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
