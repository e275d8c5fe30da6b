#include "base/machine/gpu_meter.hpp"

#include "base/machine/nvml.hpp"

#include <array>
#include <utility>

// Of NVML's interface, see nvml.cpp. All functions return 0 where all is well.

namespace trainctl {
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
constexpr unsigned long long kHeat = 0x20 | 0x40;   // software and hardware thermal slow-down
constexpr unsigned long long kBrake = 0x04 | 0x80;  // software power cap, hardware power brake

/// Null: a driver that does not have it; what it would tell is not told.
struct Functions {
  using Rates = int (*)(Device device, Utilization* rates);
  using Reasons = int (*)(Device device, unsigned long long* bits);
  using Limit = int (*)(Device device, unsigned* milliwatts);
  using Fields = int (*)(Device device, int count, FieldValue* values);

  explicit Functions(const Nvml& nvml)
      : utilization(nvml.function<Rates>("nvmlDeviceGetUtilizationRates")),
        reasons(nvml.function<Reasons>("nvmlDeviceGetCurrentClocksThrottleReasons")),
        limit(nvml.function<Limit>("nvmlDeviceGetEnforcedPowerLimit")),
        fields(nvml.function<Fields>("nvmlDeviceGetFieldValues")) {}

  Rates utilization;
  Reasons reasons;
  Limit limit;
  Fields fields;
};

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
  NvmlMeter(std::unique_ptr<Nvml> nvml, Device device)
      : nvml_(std::move(nvml)), functions_(*nvml_), device_(device) {}

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
  std::unique_ptr<Nvml> nvml_;
  Functions functions_;
  Device device_;
};

}  // namespace

std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& pci_bus, const std::string& library) {
  using Handle = int (*)(const char* bus, Device* device);
  if (pci_bus.empty()) return nullptr;
  auto nvml = std::make_unique<Nvml>(library);
  const auto handle_of = nvml->function<Handle>("nvmlDeviceGetHandleByPciBusId_v2");
  Device device = nullptr;
  if (handle_of == nullptr || handle_of(pci_bus.c_str(), &device) != 0 || device == nullptr)
    return nullptr;
  return std::make_unique<NvmlMeter>(std::move(nvml), device);
}

}  // namespace trainctl
