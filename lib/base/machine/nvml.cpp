#include "base/machine/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

namespace trainctl {
namespace {

// Of the library's interface, which has no header here
// (https://docs.nvidia.com/deploy/nvml-api/index.html): every function returns 0 where all is well.
using Device = void*;
using Init = int (*)();
using Text = int (*)(char* text, unsigned length);
using Number = int (*)(int* number);
using Count = int (*)(unsigned* count);
using Handle = int (*)(unsigned index, Device* device);
using DeviceText = int (*)(Device device, char* text, unsigned length);
using DeviceNumber = int (*)(Device device, unsigned* number);
using LinkState = int (*)(Device device, unsigned link, unsigned* is_active);
struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
using DeviceUtilization = int (*)(Device device, Utilization* utilization);
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
using DeviceMemory = int (*)(Device device, Memory* memory);

constexpr int kLibraryMismatch = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH
constexpr unsigned kMostLinks = 18;
constexpr unsigned kMostGpus = 64;

std::optional<int> number_of(DeviceNumber ask, Device device) {
  unsigned number = 0;
  if (ask == nullptr || ask(device, &number) != 0) return std::nullopt;
  return static_cast<int>(number);
}

int active_links(LinkState ask, Device device) {
  int active = 0;
  for (unsigned link = 0; ask != nullptr && link < kMostLinks; ++link) {
    unsigned is_active = 0;
    if (ask(device, link, &is_active) == 0 && is_active == 1) ++active;
  }
  return active;
}

}  // namespace

void* Nvml::symbol(const char* name) const {
  return library_ == nullptr ? nullptr : ::dlsym(library_, name);
}

Nvml::Nvml(const std::string& library)
    : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    failure_ = library + " is not installed";
    return;
  }
  const auto init = find<Init>("nvmlInit_v2");
  const int code = init == nullptr ? -1 : init();
  works_ = code == 0;
  mismatches_ = code == kLibraryMismatch;
  if (!works_)
    failure_ = mismatches_ ? "the driver's library and its kernel module are of two versions"
                           : fmt::format("nvmlInit failed with {}", code);
}

Nvml::~Nvml() {
  if (works_) {
    if (const auto shutdown = find<Init>("nvmlShutdown")) shutdown();
  }
  if (library_ != nullptr) ::dlclose(library_);
}

std::string Nvml::driver() const {
  std::array<char, 128> text{};
  const auto ask = find<Text>("nvmlSystemGetDriverVersion");
  if (!works_ || ask == nullptr || ask(text.data(), text.size() - 1) != 0) return {};
  return text.data();
}

std::optional<int> Nvml::cuda() const {
  int version = 0;
  const auto ask = find<Number>("nvmlSystemGetCudaDriverVersion_v2");
  if (!works_ || ask == nullptr || ask(&version) != 0) return std::nullopt;
  return version;
}

GpuState Nvml::state_of(int index, void* device) const {
  GpuState state{.index = index};
  std::array<char, 128> name{};
  const auto name_of = find<DeviceText>("nvmlDeviceGetName");
  if (name_of != nullptr && name_of(device, name.data(), name.size() - 1) == 0)
    state.name = name.data();
  Utilization use{};
  const auto use_of = find<DeviceUtilization>("nvmlDeviceGetUtilizationRates");
  if (use_of != nullptr && use_of(device, &use) == 0) state.percent = use.gpu;
  Memory memory{};
  const auto memory_of = find<DeviceMemory>("nvmlDeviceGetMemoryInfo");
  if (memory_of != nullptr && memory_of(device, &memory) == 0) {
    state.used_bytes = memory.used;
    state.free_bytes = memory.free;
    state.total_bytes = memory.total;
  }
  const auto number = [&](const char* question) {
    return number_of(find<DeviceNumber>(question), device);
  };
  state.pcie_generation = number("nvmlDeviceGetCurrPcieLinkGeneration");
  state.pcie_generation_max = number("nvmlDeviceGetMaxPcieLinkGeneration");
  state.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth");
  state.pcie_width_max = number("nvmlDeviceGetMaxPcieLinkWidth");
  state.nvlinks = active_links(find<LinkState>("nvmlDeviceGetNvLinkState"), device);
  return state;
}

std::vector<GpuState> Nvml::gpus() const {
  unsigned count = 0;
  const auto ask = find<Count>("nvmlDeviceGetCount_v2");
  const auto handle_of = find<Handle>("nvmlDeviceGetHandleByIndex_v2");
  if (!works_ || ask == nullptr || handle_of == nullptr || ask(&count) != 0) return {};
  std::vector<GpuState> states;
  for (unsigned i = 0; i < count && i < kMostGpus; ++i) {
    Device device = nullptr;
    if (handle_of(i, &device) == 0) states.push_back(state_of(static_cast<int>(i), device));
  }
  return states;
}

namespace {

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
