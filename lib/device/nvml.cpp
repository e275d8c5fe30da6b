#include "device/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <utility>

// NVML's interface, of which there is no header here
// (https://docs.nvidia.com/deploy/nvml-api/index.html). All functions return 0 where all is well.

namespace trainctl::device {
namespace {

using Device = void*;

struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

struct FieldValue {
  unsigned field = 0;
  unsigned scope = 0;
  long long timestamp = 0;
  long long latency_us = 0;
  int type = 0;
  int status = 0;
  union {
    double as_double;
    unsigned as_uint;
    unsigned long long as_ull = 0;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

constexpr unsigned kEnergy = 83;  // millijoules
constexpr unsigned kPcieSent = 197;
constexpr unsigned kPcieReceived = 198;
constexpr unsigned long long kHeat = 0x20 | 0x40;  // software and hardware thermal slow-down
constexpr unsigned long long kBrake = 0x80;        // hardware power brake

struct Functions {
  int (*init)() = nullptr;
  int (*handle)(const char* bus, Device* device) = nullptr;
  int (*utilization)(Device device, Utilization* rates) = nullptr;
  int (*reasons)(Device device, unsigned long long* bits) = nullptr;
  int (*limit)(Device device, unsigned* milliwatts) = nullptr;
  int (*fields)(Device device, int count, FieldValue* values) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// Of a driver of the last years; what else it lacks is not told.
bool load(const std::string& name, Functions& functions) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: others may use it, too
  if (library == nullptr) return false;
  (void)find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", functions.reasons);
  (void)find(library, "nvmlDeviceGetEnforcedPowerLimit", functions.limit);
  (void)find(library, "nvmlDeviceGetFieldValues", functions.fields);
  (void)find(library, "nvmlDeviceGetUtilizationRates", functions.utilization);
  return find(library, "nvmlInit_v2", functions.init) &&
         find(library, "nvmlDeviceGetHandleByPciBusId_v2", functions.handle);
}

std::optional<double> number_of(const FieldValue& value) {
  enum Type { as_double, as_uint, as_ulong, as_ull };
  if (value.status != 0) return std::nullopt;
  switch (value.type) {
    case as_double: return value.value.as_double;
    case as_uint: return static_cast<double>(value.value.as_uint);
    case as_ulong:
    case as_ull: return static_cast<double>(value.value.as_ull);
    default: return std::nullopt;
  }
}

class NvmlMeter final : public GpuMeter {
 public:
  NvmlMeter(const Functions& functions, Device device) : functions_(functions), device_(device) {}

  [[nodiscard]] GpuCounters counters() const override {
    GpuCounters counters;
    std::array<FieldValue, 3> values{};
    values[0].field = kEnergy;
    values[1].field = kPcieSent;
    values[2].field = kPcieReceived;
    if (functions_.fields == nullptr ||
        functions_.fields(device_, static_cast<int>(values.size()), values.data()) != 0)
      return counters;
    if (const auto millijoules = number_of(values[0])) counters.joules = *millijoules * 1e-3;
    const auto sent = number_of(values[1]);
    const auto received = number_of(values[2]);
    if (sent && received) counters.pcie_bytes = *sent + *received;
    return counters;
  }

  [[nodiscard]] GpuMoment moment() const override {
    GpuMoment now;
    Utilization rates;
    if (functions_.utilization != nullptr && functions_.utilization(device_, &rates) == 0)
      now.busy_percent = rates.gpu;
    unsigned long long bits = 0;
    if (functions_.reasons != nullptr && functions_.reasons(device_, &bits) == 0) {
      now.heat = (bits & kHeat) != 0;
      now.brake = (bits & kBrake) != 0;
    }
    return now;
  }

  [[nodiscard]] std::optional<double> power_limit() const override {
    unsigned milliwatts = 0;
    if (functions_.limit == nullptr || functions_.limit(device_, &milliwatts) != 0)
      return std::nullopt;
    return milliwatts * 1e-3;
  }

 private:
  Functions functions_;
  Device device_;
};

}  // namespace

std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& pci_bus, const std::string& library) {
  Functions functions;
  if (pci_bus.empty() || !load(library, functions) || functions.init() != 0) return nullptr;
  Device device = nullptr;
  if (functions.handle(pci_bus.c_str(), &device) != 0 || device == nullptr) return nullptr;
  return std::make_unique<NvmlMeter>(functions, device);
}

}  // namespace trainctl::device
