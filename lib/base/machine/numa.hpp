#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// A NUMA node: cores that share local memory.
struct NumaNode {
  int number = 0;
  std::vector<int> cores;
};

/// Parses a list of cores in the format of /sys: "0-3,8". Returns an empty list for invalid text.
std::vector<int> parse_core_list(std::string_view text);

/// Returns the nodes that have cores, by number; empty if not known. `root` is "/" outside tests.
std::vector<NumaNode> numa_nodes(const std::filesystem::path& root = "/");

/// Returns the node that a GPU ("/dev/nvidia0") is attached to, if the system reports it.
std::optional<int> node_of_gpu(const std::string& device, const std::filesystem::path& root = "/");

/// The position of a process among the processes of the run on its machine.
struct RankPlace {
  int local_rank = 0;
  int local_world_size = 1;
  std::optional<int> gpu_node;  // node of its GPU, if it has a GPU and the node is known
};

/// Returns the allowed cores that the loader threads of a rank are pinned to: those on the node of
/// its GPU, or else on its share of the nodes. Empty if these are all or none, or with one node.
std::vector<int> near_cores(std::span<const NumaNode> nodes, std::span<const int> allowed,
                            const RankPlace& place);

/// Returns the cores in an order in which hyperthreads of one physical core are adjacent.
std::vector<int> by_physical_core(std::span<const int> cores,
                                  const std::filesystem::path& root = "/");

/// Returns dedicated cores for each of `gpu_nodes.size()` ranks on one machine: an equal part of
/// the allowed cores on the node of its GPU, or else on its share of the nodes. Empty, which leaves
/// all ranks unpinned, for a single rank or if a node has fewer cores than ranks.
std::vector<std::vector<int>> cores_of_ranks(std::span<const NumaNode> nodes,
                                             std::span<const int> allowed,
                                             std::span<const std::optional<int>> gpu_nodes);

/// Pins the calling thread to `cores` during the lifetime of the guard. An empty list, or a list
/// that the kernel rejects, changes nothing.
class CoreGuard {
 public:
  explicit CoreGuard(std::span<const int> cores);
  ~CoreGuard();
  CoreGuard(const CoreGuard&) = delete;
  CoreGuard& operator=(const CoreGuard&) = delete;

 private:
  std::vector<int> before_;
};

/// Pins the calling thread to `cores` permanently, with the same exceptions as CoreGuard.
void keep_to_cores(std::span<const int> cores);

}  // namespace trainctl
