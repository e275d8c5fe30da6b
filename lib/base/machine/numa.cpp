#include "base/machine/numa.hpp"

#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <sched.h>

#include <fstream>
#include <utility>

namespace trainctl {
namespace {

namespace fs = std::filesystem;
constexpr int kMostCores = 1 << 16;

// Returns the node of the PCI device. Boards with one node report -1, which means none.
std::optional<int> node_of_pci(const fs::path& root, const std::string& address) {
  const auto node =
      parse_number<int>(first_line_of(root / "sys/bus/pci/devices" / address / "numa_node"));
  return node && *node >= 0 ? node : std::nullopt;
}

/// Returns the share of the nodes that belongs to the rank: several nodes if there are enough, or
/// else one node that it shares.
std::span<const NumaNode> share_of(std::span<const NumaNode> nodes, const RankPlace& place) {
  const auto count = nodes.size();
  const auto rank = static_cast<std::size_t>(place.local_rank);
  const auto ranks = static_cast<std::size_t>(place.local_world_size);
  const std::size_t first = rank * count / ranks;
  const std::size_t end = std::max(first + 1, (rank + 1) * count / ranks);
  return nodes.subspan(first, end - first);
}

/// Returns the nodes of a rank: the node of its GPU, or its share of the nodes.
std::span<const NumaNode> nodes_of(std::span<const NumaNode> nodes, const RankPlace& place) {
  const auto own = std::ranges::find_if(
      nodes, [&](const NumaNode& node) { return node.number == place.gpu_node; });
  return own != nodes.end() ? nodes.subspan(static_cast<std::size_t>(own - nodes.begin()), 1)
                            : share_of(nodes, place);
}

std::vector<int> cores_on(std::span<const NumaNode> nodes, std::span<const int> allowed) {
  std::vector<int> found;
  for (const int core : allowed) {
    const auto holds = [core](const NumaNode& node) {
      return std::ranges::find(node.cores, core) != node.cores.end();
    };
    if (std::ranges::any_of(nodes, holds)) found.push_back(core);
  }
  return found;
}

/// Returns part `index` of `parts` parts of nearly equal size.
std::vector<int> part_of(const std::vector<int>& cores, std::size_t index, std::size_t parts) {
  const auto at = [&](std::size_t part) {
    return cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * part / parts);
  };
  return {at(index), at(index + 1)};
}

}  // namespace

std::vector<int> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return cores;
  for (const std::string& part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_number<int>(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos
                          ? first
                          : parse_number<int>(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCores) return {};
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  }
  return cores;
}

std::vector<NumaNode> numa_nodes(const fs::path& root) {
  std::vector<NumaNode> nodes;
  for_each_entry(root / "sys/devices/system/node", [&](const fs::path& entry) {
    const std::string name = entry.filename().string();
    if (!name.starts_with("node")) return;
    const auto number = parse_number<int>(std::string_view(name).substr(4));
    std::vector<int> cores = parse_core_list(first_line_of(entry / "cpulist"));
    if (number && !cores.empty()) nodes.push_back({*number, std::move(cores)});
  });
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

std::optional<int> node_of_gpu(const std::string& device, const fs::path& root) {
  constexpr std::string_view kPrefix = "/dev/nvidia";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  const std::string minor = device.substr(kPrefix.size());
  std::optional<int> node;
  for_each_entry(root / "proc/driver/nvidia/gpus", [&](const fs::path& folder) {
    std::ifstream in(folder / "information");
    for (std::string line; std::getline(in, line);) {
      const std::size_t value = line.find_last_of(" \t") + 1;
      if (line.starts_with("Device Minor") && line.substr(value) == minor)
        node = node_of_pci(root, folder.filename().string());
    }
  });
  return node;
}

std::vector<int> near_cores(std::span<const NumaNode> nodes, std::span<const int> allowed,
                            const RankPlace& place) {
  if (nodes.size() < 2) return {};
  std::vector<int> near = cores_on(nodes_of(nodes, place), allowed);
  return near.size() == allowed.size() ? std::vector<int>() : near;
}

std::vector<int> by_physical_core(std::span<const int> cores, const fs::path& root) {
  std::vector<std::pair<int, int>> keyed;  // first hyperthread of the physical core, and the core
  for (const int core : cores) {
    const fs::path cpu = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(core));
    const auto siblings = parse_core_list(first_line_of(cpu / "topology/thread_siblings_list"));
    keyed.emplace_back(siblings.empty() ? core : siblings.front(), core);
  }
  std::ranges::sort(keyed);
  std::vector<int> ordered;
  for (const auto& [first, core] : keyed) ordered.push_back(core);
  return ordered;
}

std::vector<std::vector<int>> cores_of_ranks(std::span<const NumaNode> nodes,
                                             std::span<const int> allowed,
                                             std::span<const std::optional<int>> gpu_nodes) {
  const auto ranks = static_cast<int>(gpu_nodes.size());
  if (ranks < 2) return {};
  const NumaNode whole{0, {allowed.begin(), allowed.end()}};
  if (nodes.size() < 2) nodes = {&whole, 1};
  std::vector<std::vector<int>> places;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto node = gpu_nodes[static_cast<std::size_t>(rank)];
    places.push_back(cores_on(nodes_of(nodes, {rank, ranks, node}), allowed));
  }
  std::vector<std::vector<int>> own;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto before = std::count(
        places.begin(), places.begin() + static_cast<std::ptrdiff_t>(rank), places[rank]);
    const auto sharers = std::ranges::count(places, places[rank]);
    if (std::ssize(places[rank]) < sharers) return {};
    own.push_back(
        part_of(places[rank], static_cast<std::size_t>(before), static_cast<std::size_t>(sharers)));
  }
  return own;
}

void keep_to_cores(std::span<const int> cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  (void)::sched_setaffinity(0, sizeof set, &set);  // a failure affects only speed
}

CoreGuard::CoreGuard(std::span<const int> cores) {
  if (cores.empty()) return;
  before_ = allowed_cores();
  keep_to_cores(cores);
}

CoreGuard::~CoreGuard() { keep_to_cores(before_); }

}  // namespace trainctl
