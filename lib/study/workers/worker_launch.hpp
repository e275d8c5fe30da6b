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

/// What the workers of a folder are started by.
struct WorkerLaunch {
  fs::path executable;  // started as `trainctl worker`
  fs::path folder;      // with config.resolved.yaml; it gets the logs
  const spec::Trainer& trainer;
  const Machine& machine;
  const DeviceChoice& devices;      // each rank of which has its share of the cores
  int cores = 0;                    // of this supervisor, below a launcher; 0: the machine's
  double collective_timeout_s = 0;  // distributed.timeout_s; 0: NCCL's watchdog is left alone
};

/// How the threads of its workers wait, while threads of the machine wait for a core `pressure`
/// percent of the time.
launch::Waiting waiting_of(const WorkerLaunch& wish, double pressure);

/// Cores of its own for each rank, see cores_of_ranks(); empty: any, because others need the cores,
/// a quota leaves only part of them, or the user binds threads (OMP_PROC_BIND, OMP_PLACES,
/// GOMP_CPU_AFFINITY, KMP_AFFINITY).
std::vector<std::vector<int>> cores_of(const WorkerLaunch& wish, launch::Waiting waiting);

/// One worker: environment, libraries, allocator and logs, the same for whatever it is to do.
/// Throws Error(resource) where the allocator is not found.
launch::LaunchSpec worker_launch(const WorkerLaunch& wish);

// What a supervisor needs to be one of several.

/// 5 s between beats, 15 s of silence. TRAINCTL_NODE_BEAT_S, the same on every node, is another
/// time between beats, for tests; silence is three of them. Error(config) where that is garbage.
launch::BeatTimes beat_times();

/// Digest of the resolved config, without what may differ between nodes: distributed.interface.
std::string config_digest(const spec::Loaded& loaded);
/// "optimizer.lr is 0.1 there and 0.2 here", the first by path; empty where none is found. `theirs`
/// is a resolved config. Throws Error(checkpoint) where it cannot be read.
std::string first_difference(const std::string& theirs, const spec::Loaded& ours);

/// The address by which other nodes reach the ranks of this one: that of distributed.interface, or
/// `local`, of the connection between the supervisors. Throws Error(config).
std::string group_address(const spec::Experiment& experiment, const std::string& local);

/// The workers of one start, on whatever node: argv, environment, place and limits.
struct NodeLaunch {
  const RunRequest& request;
  const fs::path& folder;
  const Machine& machine;
  const DeviceChoice& devices;
  std::string address;  // group_address(); empty: there are no other nodes
};
launch::LaunchSpec launch_spec(const NodeLaunch& wish);

/// An allocator that workers may be started with.
struct AllocatorLibrary {
  spec::Allocator allocator;
  const char* name;     // as in the experiment file
  const char* file;     // as the dynamic linker names it
  const char* package;  // of Debian and Ubuntu
};
/// All but the C library's own.
std::span<const AllocatorLibrary> allocator_libraries();

/// Has the workers preload what answers malloc, before what the user preloads, and tells it to keep
/// freed memory as keep_freed_memory() tells glibc, unless the user has said otherwise. Throws
/// Error(resource) that names the package where the library is not found.
void add_allocator(spec::Allocator asked, launch::LaunchSpec& launch);

/// A variable of the environment that keeps idle threads of OpenMP awake: "OMP_WAIT_POLICY=active";
/// empty where none does.
std::string spin_variable();

/// The same, or another variable that slows runs down: "CUDA_LAUNCH_BLOCKING=1".
std::string slow_variable();

}  // namespace trainctl::study
