#pragma once

#include <cstdint>
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

  /// A function of the library; null where it has none of that name, or does not answer. Valid as
  /// long as this object.
  template <class Function>
  [[nodiscard]] Function function(const char* name) const {
    return works_ ? find<Function>(name) : nullptr;
  }

 private:
  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return reinterpret_cast<Function>(symbol(name));
  }
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] GpuState state_of(int index, void* device) const;

  void* library_ = nullptr;
  bool works_ = false;
  bool mismatches_ = false;
  std::string failure_;
};

}  // namespace trainctl
