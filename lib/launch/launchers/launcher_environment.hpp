#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// What started this process, as its environment tells: the names of torchrun, Slurm, MPI and
// Kubernetes are known here only.

namespace trainctl::launch {

/// plain: RANK, WORLD_SIZE and MASTER_ADDR, set by hand or by a launcher that is not known.
enum class Launcher { none, torchrun, slurm, mpi, kubernetes, plain };

/// As sentences call it: "torchrun", "Slurm", "MPI", ...
const char* name_of(Launcher launcher);

/// One of the tasks that a launcher has started.
struct TaskPlace {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int world_size = 1;        // of tasks
  int local_rank = 0;        // among the tasks of this host
  int local_world_size = 1;  // tasks of this host
  bool whole_node = false;   // the task has its host's devices for itself, and starts a worker each
  std::string master_addr;   // the host of task 0; empty: not told
  std::optional<std::uint16_t> master_port;
  std::string job_id;          // differs between jobs, their steps and their repetitions where told
  std::optional<int> restart;  // how often the launcher has started the job again; absent: not told
  bool agent_store = false;    // master_addr:master_port is torchrun's own key-value store
  std::optional<int> cores_here;     // of this host, for all of the job's tasks there
  bool may_bind = false;             // it may have given each task cores of its own
  std::vector<std::string> ignored;  // sentences: what was found and is not heeded
};

using GetEnv = std::function<const char*(const char* name)>;

/// Where the launcher puts this task; a launcher of `none` where variables of one were found, and
/// ignored; nothing where there are none. The innermost launcher counts: torchrun below srun is
/// torchrun. A pure function of the environment. Throws Error(config) naming the variables where
/// one is missing or garbage, or where they contradict each other.
std::optional<TaskPlace> task_place(const GetEnv& getenv);

// What Slurm's variables hold in short forms.

/// The first host of a list: "gpu[03-05,9],login1" gives "gpu03". Throws Error(config) where it is
/// none.
std::string first_host(const std::string& list);

/// Of the node with that number in "2(x3),1": 2 for nodes 0 to 2, 1 for node 3. Throws
/// Error(config) where it is none, or has no such node.
int tasks_of_node(const std::string& counts, int node);

/// For the head of a Slurm step, below the range that kernels give to others: 12000 to 27999.
std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step);

}  // namespace trainctl::launch
