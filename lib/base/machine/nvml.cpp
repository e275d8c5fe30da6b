#include "base/machine/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

namespace trainctl {
namespace {

// These types mirror the library's interface, whose header is not available here
// (https://docs.nvidia.com/deploy/nvml-api/index.html). Every function returns 0 on success.
struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

constexpr int kLibraryMismatch = 18;       // NVML_ERROR_LIB_RM_VERSION_MISMATCH
constexpr unsigned kMostCharacters = 127;  // of a text, without the final zero
constexpr unsigned kMostLinks = 18;
constexpr unsigned kMostDevices = 64;

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

constexpr unsigned kEnergy = 83;  // NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, in millijoules
constexpr unsigned kPcieSent = 197;
constexpr unsigned kPcieReceived = 198;
constexpr unsigned long long kHeat = 0x20 | 0x40;   // software and hardware thermal slowdown
constexpr unsigned long long kBrake = 0x04 | 0x80;  // software power cap and hardware power brake

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
  NvmlMeter(std::unique_ptr<Nvml> nvml, void* device) : nvml_(std::move(nvml)), device_(device) {}

  [[nodiscard]] GpuCounters counters() const override {
    GpuCounters counters;
    std::array<FieldValue, 3> values{};
    values[0].field = kEnergy;
    values[1].field = kPcieSent;
    values[2].field = kPcieReceived;
    if (!nvml_->call("nvmlDeviceGetFieldValues", device_, static_cast<int>(values.size()),
                     values.data()))
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
    if (nvml_->call("nvmlDeviceGetUtilizationRates", device_, &rates)) now.busy_percent = rates.gpu;
    unsigned long long bits = 0;
    if (nvml_->call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &bits)) {
      now.heat = (bits & kHeat) != 0;
      now.brake = (bits & kBrake) != 0;
    }
    return now;
  }

  [[nodiscard]] std::optional<double> power_limit() const override {
    unsigned milliwatts = 0;
    if (!nvml_->call("nvmlDeviceGetEnforcedPowerLimit", device_, &milliwatts)) return std::nullopt;
    return milliwatts * 1e-3;
  }

 private:
  std::unique_ptr<Nvml> nvml_;
  void* device_;
};

}  // namespace

Nvml::Nvml(const std::string& library)
    : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    failure_ = library + " is not installed";
    return;
  }
  const auto init = reinterpret_cast<int (*)()>(symbol("nvmlInit_v2"));
  const int code = init == nullptr ? -1 : init();
  works_ = code == 0;
  mismatches_ = code == kLibraryMismatch;
  if (!works_)
    failure_ = mismatches_ ? "the NVIDIA library and kernel module have different versions"
                           : fmt::format("nvmlInit() failed with error code {}", code);
}

Nvml::~Nvml() {
  call("nvmlShutdown");
  if (library_ != nullptr) ::dlclose(library_);
}

void* Nvml::symbol(const char* name) const { return ::dlsym(library_, name); }

std::string Nvml::driver() const {
  std::array<char, 128> text{};
  const bool known = call("nvmlSystemGetDriverVersion", text.data(), kMostCharacters);
  return known ? text.data() : "";
}

std::optional<int> Nvml::cuda() const {
  int version = 0;
  const bool known = call("nvmlSystemGetCudaDriverVersion_v2", &version);
  return known ? std::optional(version) : std::nullopt;
}

GpuState Nvml::state_of(int index, void* device) const {
  GpuState state{.index = index};
  std::array<char, 128> name{};
  if (call("nvmlDeviceGetName", device, name.data(), kMostCharacters)) state.name = name.data();
  Utilization use{};
  if (call("nvmlDeviceGetUtilizationRates", device, &use)) state.percent = use.gpu;
  Memory memory{};
  if (call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    state.used_bytes = memory.used;
    state.free_bytes = memory.free;
    state.total_bytes = memory.total;
  }
  const auto number = [&](const char* function) {
    unsigned value = 0;
    const bool known = call(function, device, &value);
    return known ? std::optional(static_cast<int>(value)) : std::nullopt;
  };
  state.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration");
  state.pcie_generation_max = number("nvmlDeviceGetMaxPcieLinkGeneration");
  state.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth");
  state.pcie_width_max = number("nvmlDeviceGetMaxPcieLinkWidth");
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned is_active = 0;
    if (call("nvmlDeviceGetNvLinkState", device, link, &is_active) && is_active == 1)
      ++state.nvlinks;
  }
  add_health(device, state);
  return state;
}

void Nvml::add_health(void* device, GpuState& state) const {
  constexpr unsigned kExclusive = 3;  // NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
  constexpr unsigned kProhibited = 2;
  constexpr unsigned kUncorrected = 1;
  constexpr unsigned kSinceReset = 0;
  constexpr unsigned kOfGpu = 0;  // temperature sensor
  std::array<char, 128> uuid{};
  if (call("nvmlDeviceGetUUID", device, uuid.data(), kMostCharacters)) state.uuid = uuid.data();
  int major = 0;
  int minor = 0;
  if (call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor))
    state.capability = fmt::format("{}.{}", major, minor);
  unsigned value = 0;
  if (call("nvmlDeviceGetPersistenceMode", device, &value)) state.persistence = value == 1;
  unsigned after_reboot = 0;
  if (call("nvmlDeviceGetEccMode", device, &value, &after_reboot)) state.ecc = value == 1;
  unsigned long long errors = 0;
  if (call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceReset, &errors))
    state.memory_errors = errors;
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned is_pending = 0;
  unsigned has_failed = 0;
  if (call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &is_pending,
           &has_failed)) {
    state.needs_reset = is_pending == 1;
    state.is_defective = has_failed == 1;
  }
  if (call("nvmlDeviceGetTemperature", device, kOfGpu, &value))
    state.temperature = static_cast<int>(value);
  if (call("nvmlDeviceGetComputeMode", device, &value)) {
    state.is_prohibited = value == kProhibited;
    state.is_exclusive = value == kExclusive;
  }
  unsigned long long bits = 0;
  if (call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &bits)) {
    state.is_hot = (bits & kHeat) != 0;
    state.is_power_limited = (bits & kBrake) != 0;
  }
}

std::vector<GpuState> Nvml::gpus() const {
  unsigned count = 0;
  if (!call("nvmlDeviceGetCount_v2", &count)) return {};
  std::vector<GpuState> states;
  for (unsigned i = 0; i < count && i < kMostDevices; ++i) {
    void* device = nullptr;
    if (call("nvmlDeviceGetHandleByIndex_v2", i, &device))
      states.push_back(state_of(static_cast<int>(i), device));
  }
  return states;
}

std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& pci_bus, const std::string& library) {
  if (pci_bus.empty()) return nullptr;
  auto nvml = std::make_unique<Nvml>(library);
  void* device = nullptr;
  const bool known = nvml->call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus.c_str(), &device);
  if (!known || device == nullptr) return nullptr;
  return std::make_unique<NvmlMeter>(std::move(nvml), device);
}

}  // namespace trainctl
