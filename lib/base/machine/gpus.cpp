#include "base/machine/gpus.hpp"

#include "base/files.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>

namespace trainctl {
namespace {

constexpr int kMostGpus = 64;
constexpr std::string_view kUuid = "GPU-";
constexpr std::string_view kMigSlice = "MIG-";
constexpr std::string_view kBlanks = " \t\n\v\f\r";

std::string value_after_colon(const std::string& line) {
  return std::string(trimmed(std::string_view(line).substr(line.find(':') + 1), " \t"));
}

// Returns the GPUs of /proc/driver/nvidia/gpus/*/information by device number.
std::map<std::string, Gpu> cards_of_driver(const fs::path& root) {
  std::map<std::string, Gpu> found;
  for_each_entry(root / "proc/driver/nvidia/gpus", [&](const fs::path& folder) {
    std::ifstream in(folder / "information");
    Gpu card;
    std::string minor;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("Model:")) card.model = value_after_colon(line);
      if (line.starts_with("GPU UUID")) card.uuid = value_after_colon(line);
      if (line.starts_with("Device Minor")) minor = value_after_colon(line);
    }
    card.pci_bus = folder.filename().string();
    if (!minor.empty()) found[minor] = card;
  });
  return found;
}

// Parses like strtol ("1gpu" is 1), as CUDA does. Empty without a number or such a GPU.
std::optional<std::size_t> by_number(std::span<const Gpu> present, std::string_view entry) {
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (failure != std::errc() || number >= present.size()) return std::nullopt;
  return number;
}

/// Returns the device of the GPU whose UUID starts with the entry, if exactly one does. Without the
/// driver's description of a GPU, as in some containers, only CUDA can find it: the result is then
/// the entry itself. Else empty.
std::string by_uuid(std::span<const Gpu> present, std::string_view entry) {
  const auto fits = [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
  const auto count = std::ranges::count_if(present, fits);
  if (count == 1) return std::ranges::find_if(present, fits)->device;
  const bool may_exist =
      count == 0 && std::ranges::any_of(present, &std::string::empty, &Gpu::uuid);
  return may_exist ? std::string(entry) : std::string();
}

/// Returns the device that an entry of CUDA_VISIBLE_DEVICES selects; empty if the entry is invalid.
std::string device_called(std::span<const Gpu> present, std::string_view entry) {
  if (entry.starts_with(kUuid)) return by_uuid(present, entry);
  const auto number = by_number(present, entry);
  return number ? present[*number].device : std::string();
}

/// Orders "0000:3b:00.0" before "10000:01:00.0"; unknown addresses come last.
std::pair<std::size_t, std::string> pci_order(const Gpu& gpu) {
  constexpr std::size_t kLast = 1000;
  return {gpu.pci_bus.empty() ? kLast : gpu.pci_bus.size(), gpu.pci_bus};
}

}  // namespace

std::vector<Gpu> present_gpus(const fs::path& root) {
  std::map<std::string, Gpu> cards = cards_of_driver(root);
  std::vector<Gpu> gpus;
  for (int i = 0; i < kMostGpus; ++i) {
    const std::string number = std::to_string(i);
    if (!path_exists(root / ("dev/nvidia" + number))) continue;
    gpus.push_back(std::move(cards[number]));
    gpus.back().device = "/dev/nvidia" + number;
  }
  std::ranges::stable_sort(gpus, {}, pci_order);
  return gpus;
}

bool numbers_by_pci() {
  const char* order = std::getenv(kGpuOrder);
  return order == nullptr || std::string_view(order) == kOrderByPci;
}

std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list) {
  std::vector<std::string> visible;
  if (list == nullptr) {
    for (const Gpu& gpu : present) visible.push_back(gpu.device);
    return visible;
  }
  const std::vector<std::string> entries = split(list, ',');
  // The list does not say which GPU has the MIG slice, and CUDA uses one slice per process.
  if (!present.empty() && trimmed(entries.front(), kBlanks).starts_with(kMigSlice))
    return {std::string(trimmed(entries.front(), kBlanks))};
  for (const std::string& entry : entries) {
    const std::string device = device_called(present, trimmed(entry, kBlanks));
    if (device.empty()) break;
    if (std::ranges::find(visible, device) != visible.end()) return {};
    visible.push_back(device);
  }
  return visible;
}

int named_gpus(const char* list) {
  if (list == nullptr) return 0;
  const auto is_name = [](const std::string& entry) {
    const std::string_view text = trimmed(entry, kBlanks);
    return text.starts_with(kUuid) || (!text.empty() && text[0] >= '0' && text[0] <= '9');
  };
  const std::vector<std::string> entries = split(list, ',');
  if (trimmed(entries.front(), kBlanks).starts_with(kMigSlice)) return 1;
  return static_cast<int>(std::ranges::find_if_not(entries, is_name) - entries.begin());
}

std::vector<std::string> gpu_models(std::span<const Gpu> present,
                                    std::span<const std::string> devices) {
  std::vector<std::string> models;
  for (const std::string& device : devices) {
    const auto found = std::ranges::find(present, device, &Gpu::device);
    const bool named = found != present.end() && !found->model.empty();
    models.push_back(named ? found->model : device);
  }
  return models;
}

}  // namespace trainctl
