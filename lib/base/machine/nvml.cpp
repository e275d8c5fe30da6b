#include "base/machine/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

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
  unsigned gpu;
  unsigned memory;
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

}  // namespace trainctl
