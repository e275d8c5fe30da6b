#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Reads which launcher started this process from its environment. Only these files know the
// variables of torchrun, Slurm, MPI and Kubernetes.

namespace trainctl::launch {

/// `plain` means RANK, WORLD_SIZE and MASTER_ADDR, set by hand or by an unknown launcher.
enum class Launcher { none, torchrun, slurm, mpi, kubernetes, plain };

/// Returns the name for messages: "torchrun", "Slurm", "MPI", ...
const char* name_of(Launcher launcher);

/// The position of a task among the tasks that a launcher has started.
struct LauncherTask {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int world_size = 1;        // number of tasks
  int local_rank = 0;        // among the tasks of this host
  int local_world_size = 1;  // tasks of this host
  bool whole_node = false;   // the task owns its host's devices, and starts a worker for each
  std::string master_addr;   // host of task 0; empty if unknown
  std::optional<std::uint16_t> master_port;
  std::string job_id;  // differs between jobs, job steps and requeues, if the launcher reports it
  std::optional<int> restart;        // number of restarts by the launcher; absent if unknown
  bool agent_store = false;          // torchrun's own key-value store is at master_addr:master_port
  std::optional<int> cores_here;     // cores of this host for all of the job's tasks there
  bool may_bind = false;             // the launcher may have bound each task to its own cores
  std::vector<std::string> ignored;  // sentences about variables that were found and ignored
};

using GetEnv = std::function<const char*(const char* name)>;

/// Returns the position that the launcher gives this task; Launcher::none if variables of a
/// launcher were found and ignored; empty without such variables. The innermost launcher counts:
/// torchrun inside srun is torchrun. A pure function of the environment. Throws Error(config)
/// naming the variables if one is missing or invalid, or if they contradict each other.
std::optional<LauncherTask> find_launcher_task(const GetEnv& getenv);

// The functions below parse the short forms of Slurm's variables.

/// Returns the first host of a list: "gpu03" for "gpu[03-05,9],login1". Throws Error(config).
std::string first_host(const std::string& list);

/// Returns the number of tasks of a node: for "2(x3),1" this is 2 for nodes 0 to 2 and 1 for node
/// 3. Throws Error(config) if the text is invalid or has no such node.
int tasks_of_node(const std::string& counts, int node);

/// Returns a port for node 0 of a Slurm step, 12000 to 27999, below the kernel's ephemeral range.
std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step);

}  // namespace trainctl::launch
