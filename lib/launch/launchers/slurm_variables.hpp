#pragma once

#include <cstdint>
#include <string>

// What Slurm's variables hold in short forms.

namespace trainctl::launch {

/// The first host of a list: "gpu[03-05,9],login1" gives "gpu03". Throws Error(config) where it is
/// none.
std::string first_host(const std::string& list);

/// Of the node with that number in "2(x3),1": 2 for nodes 0 to 2, 1 for node 3. Throws
/// Error(config) where it is none, or has no such node.
int tasks_of_node(const std::string& counts, int node);

/// For the head of a Slurm step, below the range that kernels give to others: 12000 to 27999.
std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step);

}  // namespace trainctl::launch
