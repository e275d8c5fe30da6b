#pragma once

#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "launch/supervise/supervisor.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/workers/devices.hpp"

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

}  // namespace trainctl::study
