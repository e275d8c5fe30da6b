#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

/// The state of a GPU as NVML reports it. Values that NVML does not report are absent.
struct GpuState {
  int index = 0;
  std::string name;
  std::optional<double> percent;  // GPU utilization
  std::uint64_t used_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::optional<int> pcie_generation;  // current; drops while the GPU is idle
  std::optional<int> pcie_generation_max;
  std::optional<int> pcie_width;  // lanes
  std::optional<int> pcie_width_max;
  int nvlinks = 0;  // active links
  std::string uuid = {};
  std::string capability = {};                      // "9.0"
  std::optional<bool> persistence = {};             // the driver stays loaded without processes
  std::optional<bool> ecc = {};                     // error correction is on
  std::optional<std::uint64_t> memory_errors = {};  // uncorrected ones since the last reset
  std::optional<bool> needs_reset = {};             // to replace defective memory rows
  std::optional<bool> is_defective = {};            // rows could not be replaced
  std::optional<int> temperature = {};              // degrees Celsius
  bool is_prohibited = false;                       // compute mode that admits no process
  bool is_exclusive = false;                        // compute mode that admits one process
  bool is_hot = false;                              // clocks are reduced because of the temperature
  bool is_power_limited = false;                    // clocks are reduced because of a power limit
};

/// The NVIDIA management library (NVML). It is loaded at run time and never linked, so that the
/// program also runs on machines without the library.
class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Returns why the library cannot be used; empty if it works.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Returns whether the library differs from the driver, so that CUDA programs cannot start.
  [[nodiscard]] bool mismatches() const { return mismatches_; }
  [[nodiscard]] std::string driver() const;       // "580.95.05"; empty if not known
  [[nodiscard]] std::optional<int> cuda() const;  // 13000 for 13.0
  [[nodiscard]] std::vector<GpuState> gpus() const;

  /// Calls a function of the library; the parameter types are the types of the arguments. Returns
  /// false if the library has no function of that name or the call fails.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    if (!works_) return false;
    const auto function = reinterpret_cast<int (*)(Arguments...)>(symbol(name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] GpuState state_of(int index, void* device) const;
  void add_health(void* device, GpuState& state) const;

  void* library_ = nullptr;
  bool works_ = false;
  bool mismatches_ = false;
  std::string failure_;
};

/// Counters of a GPU since the driver was loaded.
struct GpuCounters {
  std::optional<double> joules;
  std::optional<double> pcie_bytes;  // sent and received; may wrap
};

/// The current load of a GPU.
struct GpuMoment {
  std::optional<double> busy_percent;
  bool heat = false;   // clocks are reduced because of the temperature
  bool brake = false;  // clocks are reduced because of a power limit
};

/// Reads the counters and load of one GPU through NVML. Each call takes well under a millisecond
/// and does not wait for the device.
class GpuMeter {
 public:
  virtual ~GpuMeter() = default;
  [[nodiscard]] virtual GpuCounters counters() const = 0;
  [[nodiscard]] virtual GpuMoment moment() const = 0;
  /// Returns the enforced power limit in watts.
  [[nodiscard]] virtual std::optional<double> power_limit() const = 0;
};

/// Creates a meter for the GPU at `pci_bus`, e.g. "00000000:3b:00.0". Returns null if the library
/// cannot be loaded, lacks the functions, or does not know the GPU.
std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& pci_bus,
                                         const std::string& library = "libnvidia-ml.so.1");

}  // namespace trainctl
