#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// Cores that share the memory that is near to them.
struct NumaNode {
  int number = 0;
  std::vector<int> cores;
};

/// A list of cores as /sys writes it: "0-3,8". Empty where the text is none.
std::vector<int> parse_core_list(std::string_view text);

/// Returns the nodes that have cores, by number; empty if not known. `root` is "/" outside tests.
std::vector<NumaNode> numa_nodes(const std::filesystem::path& root = "/");

/// Returns the node that a GPU ("/dev/nvidia0") is wired to, if the driver and the board tell.
std::optional<int> node_of_gpu(const std::string& device, const std::filesystem::path& root = "/");

/// One process of a run among those on its machine.
struct RankPlace {
  int local_rank = 0;
  int local_world_size = 1;
  std::optional<int> gpu_node;  // of its GPU, where it has one and the node is known
};

/// Returns the allowed cores that the loader threads of a rank keep to: those on the node of its
/// GPU, else on its share of the nodes. Empty where these are all or none, or there is one node.
std::vector<int> near_cores(std::span<const NumaNode> nodes, std::span<const int> allowed,
                            const RankPlace& place);

/// Returns the cores ordered so that those of one physical core are neighbors.
std::vector<int> by_physical_core(std::span<const int> cores,
                                  const std::filesystem::path& root = "/");

/// Returns separate cores for each of `gpu_nodes.size()` ranks of one machine: an equal part of the
/// allowed ones on the node of its GPU, else on its share of the nodes. Empty where there is one
/// rank, or a node has fewer cores than ranks: all may run anywhere.
std::vector<std::vector<int>> cores_of_ranks(std::span<const NumaNode> nodes,
                                             std::span<const int> allowed,
                                             std::span<const std::optional<int>> gpu_nodes);

/// While it lives, the calling thread keeps to `cores`; an empty list, or one that the kernel
/// refuses, changes nothing.
class CoreGuard {
 public:
  explicit CoreGuard(std::span<const int> cores);
  ~CoreGuard();
  CoreGuard(const CoreGuard&) = delete;
  CoreGuard& operator=(const CoreGuard&) = delete;

 private:
  std::vector<int> before_;
};

/// The calling thread keeps to `cores` from now on; the same exceptions.
void keep_to_cores(std::span<const int> cores);

}  // namespace trainctl
