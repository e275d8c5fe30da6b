#include "base/machine/gpus.hpp"

#include "base/machine/procfs.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>

namespace trainctl {
namespace {

namespace fs = std::filesystem;
constexpr int kMostGpus = 64;

std::string value_after_colon(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t", line.find(':') + 1);
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t") - first + 1);
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
    if (!minor.empty()) found[minor] = card;
  });
  return found;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

// Parses like strtol ("1gpu" is 1), as CUDA does. Empty without a number or such a GPU.
std::optional<std::size_t> by_number(std::span<const Gpu> present, std::string_view entry) {
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (failure != std::errc() || number >= present.size()) return std::nullopt;
  return number;
}

// Returns the GPU whose UUID starts with the entry, if exactly one does.
std::optional<std::size_t> by_uuid(std::span<const Gpu> present, std::string_view entry) {
  const auto fits = [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
  const auto first = std::ranges::find_if(present, fits);
  if (!entry.starts_with("GPU-") || std::ranges::count_if(present, fits) != 1) return std::nullopt;
  return static_cast<std::size_t>(first - present.begin());
}

}  // namespace

std::vector<Gpu> present_gpus(const fs::path& root) {
  std::map<std::string, Gpu> cards = cards_of_driver(root);
  std::vector<Gpu> gpus;
  std::error_code ignored;
  for (int i = 0; i < kMostGpus; ++i) {
    const std::string number = std::to_string(i);
    if (!fs::exists(root / ("dev/nvidia" + number), ignored)) continue;
    gpus.push_back(std::move(cards[number]));
    gpus.back().device = "/dev/nvidia" + number;
  }
  return gpus;
}

std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list) {
  std::vector<std::string> visible;
  if (list == nullptr) {
    for (const Gpu& gpu : present) visible.push_back(gpu.device);
    return visible;
  }
  const std::vector<std::string> entries = split(list, ',');
  // The list does not say which GPU has the MIG slice, and CUDA uses one slice per process.
  if (!present.empty() && trimmed(entries.front()).starts_with("MIG-"))
    return {std::string(trimmed(entries.front()))};
  for (const std::string& entry : entries) {
    const std::string_view text = trimmed(entry);
    const auto index = text.starts_with("GPU-") ? by_uuid(present, text) : by_number(present, text);
    if (!index) break;
    const std::string& device = present[*index].device;
    if (std::ranges::find(visible, device) != visible.end()) return {};
    visible.push_back(device);
  }
  return visible;
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
