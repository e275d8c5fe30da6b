#include "base/numa.hpp"

#include "base/machine.hpp"
#include "base/strings.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace trainctl {
namespace {

namespace fs = std::filesystem;
constexpr int kMostCores = 1 << 16;

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The number of the node that holds the PCI device; -1, as boards with one node write it, is none.
std::optional<int> node_of_pci(const fs::path& root, const std::string& address) {
  const auto node = whole_number(first_line(root / "sys/bus/pci/devices" / address / "numa_node"));
  return node && *node >= 0 ? node : std::nullopt;
}

/// Of the nodes, in their order, those that belong to the rank: some for each where there are
/// enough, else one that it shares.
std::span<const NumaNode> share_of(std::span<const NumaNode> nodes, const RankPlace& place) {
  const auto count = nodes.size();
  const auto rank = static_cast<std::size_t>(place.local_rank);
  const auto ranks = static_cast<std::size_t>(place.local_world_size);
  const std::size_t first = rank * count / ranks;
  const std::size_t end = std::max(first + 1, (rank + 1) * count / ranks);
  return nodes.subspan(first, end - first);
}

}  // namespace

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return cores;
  for (const std::string& part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = whole_number(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : whole_number(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCores) return {};
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  }
  return cores;
}

std::vector<NumaNode> numa_nodes(const fs::path& root) {
  std::vector<NumaNode> nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    const auto number = whole_number(std::string_view(name).substr(4));
    std::vector<int> cores = parse_core_list(first_line(entry.path() / "cpulist"));
    if (number && !cores.empty()) nodes.push_back({*number, std::move(cores)});
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

std::optional<int> node_of_gpu(const std::string& device, const fs::path& root) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  const std::string minor = device.substr(kPrefix.size());
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(root / "proc/driver/nvidia/gpus", ignored)) {
    std::ifstream in(folder.path() / "information");
    for (std::string line; std::getline(in, line);) {
      const std::size_t value = line.find_last_of(" \t") + 1;
      if (line.starts_with("Device Minor") && line.substr(value) == minor)
        return node_of_pci(root, folder.path().filename().string());
    }
  }
  return std::nullopt;
}

std::vector<int> near_cores(std::span<const NumaNode> nodes, std::span<const int> allowed,
                            const RankPlace& place) {
  if (nodes.size() < 2) return {};
  const auto own = std::ranges::find_if(
      nodes, [&](const NumaNode& node) { return node.number == place.gpu_node; });
  const auto mine = own != nodes.end()
                        ? nodes.subspan(static_cast<std::size_t>(own - nodes.begin()), 1)
                        : share_of(nodes, place);
  std::vector<int> near;
  for (const int core : allowed) {
    const auto holds = [core](const NumaNode& node) {
      return std::ranges::find(node.cores, core) != node.cores.end();
    };
    if (std::ranges::any_of(mine, holds)) near.push_back(core);
  }
  return near.size() == allowed.size() ? std::vector<int>() : near;
}

void keep_to_cores(std::span<const int> cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  (void)::sched_setaffinity(0, sizeof set, &set);  // a refusal costs nothing but speed
}

CoreGuard::CoreGuard(std::span<const int> cores) {
  if (cores.empty()) return;
  before_ = allowed_cores();
  keep_to_cores(cores);
}

CoreGuard::~CoreGuard() { keep_to_cores(before_); }

}  // namespace trainctl
