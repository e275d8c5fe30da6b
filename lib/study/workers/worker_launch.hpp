#pragma once

#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/supervise/supervisor.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/nodes/node_plan.hpp"
#include "study/run/run.hpp"
#include "study/workers/devices.hpp"

#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

/// The inputs for starting the workers of a folder.
struct WorkerLaunch {
  fs::path executable;  // started as `trainctl worker`
  fs::path folder;      // contains config.resolved.yaml and receives the logs
  const spec::Trainer& trainer;
  const Machine& machine;
  const DeviceChoice& devices;  // the cores are divided among its ranks
  int cores = 0;                // cores of this supervisor under a launcher; 0: all of the machine
  double collective_timeout_s = 0;  // distributed.timeout_s; 0: NCCL's watchdog is not configured
};

/// Returns how idle threads of the workers wait, given that threads of the machine wait for a core
/// `pressure` percent of the time.
launch::OmpWaitPolicy choose_omp_wait_policy(const WorkerLaunch& workers, double pressure);

/// Returns dedicated cores for each rank, see cores_of_ranks(). Empty (any core) if other processes
/// need the cores, a quota leaves only part of them, or the user binds threads (OMP_PROC_BIND,
/// OMP_PLACES, GOMP_CPU_AFFINITY, KMP_AFFINITY).
std::vector<std::vector<int>> cores_of(const WorkerLaunch& workers, launch::OmpWaitPolicy waiting);

/// Returns a worker's environment, libraries, allocator and logs, which are the same for every
/// task. Throws Error(resource) when the allocator is not found.
launch::LaunchSpec worker_launch(const WorkerLaunch& workers);

// The following functions are for a supervisor that is one of several.

/// Returns 5 s between heartbeats and 15 s of silence. For tests, TRAINCTL_NODE_BEAT_S sets another
/// interval, which must be the same on every node; the silence is three intervals. Throws
/// Error(config) when the variable is invalid.
launch::KeepaliveTimes keepalive_times();

/// Returns a digest of the resolved config without distributed.interface, which may differ between
/// nodes.
std::string config_digest(const spec::Loaded& loaded);
/// Returns the first difference by path: "optimizer.lr is 0.1 there and 0.2 here"; empty if they
/// are equal. `theirs` is a resolved config. Throws Error(checkpoint) when it cannot be read.
std::string first_difference(const std::string& theirs, const spec::Loaded& ours);

/// Returns the address at which other nodes reach the ranks of this node: that of
/// distributed.interface, or `local`, the address of the connection between the supervisors. Throws
/// Error(config).
std::string group_address(const spec::Experiment& experiment, const std::string& local);

/// The workers of one start on any node: command line, environment, placement and limits.
struct NodeLaunch {
  const RunRequest& request;
  const fs::path& folder;
  const Machine& machine;
  const DeviceChoice& devices;
  std::string address;  // group_address(); empty: there are no other nodes
};
/// Returns the launch of the workers of a run.
launch::LaunchSpec launch_spec(const NodeLaunch& node);

/// An allocator library for the workers.
struct AllocatorLibrary {
  spec::Allocator allocator;
  const char* name;     // as in the experiment file
  const char* file;     // as the dynamic linker names it
  const char* package;  // of Debian and Ubuntu
};
/// Returns all allocators except that of the C library.
std::span<const AllocatorLibrary> allocator_libraries();

/// Preloads the allocator's library in the workers, before the libraries that the user preloads,
/// and configures it to keep freed memory as keep_freed_memory() does for glibc, unless the user
/// has set that. Throws Error(resource) that names the package when the library is not found.
void add_allocator(spec::Allocator asked, launch::LaunchSpec& launch);

/// Returns an environment variable that keeps idle OpenMP threads spinning:
/// "OMP_WAIT_POLICY=active"; empty if no variable does.
std::string spin_variable();

/// Returns the same, or another variable that slows runs down: "CUDA_LAUNCH_BLOCKING=1".
std::string slow_variable();

}  // namespace trainctl::study
