#pragma once

#include "base/files.hpp"
#include "base/machine.hpp"
#include "launch/supervisor.hpp"
#include "spec/experiment.hpp"
#include "study/devices.hpp"

namespace trainctl::study {

/// What the workers of a folder are started by.
struct WorkerLaunch {
  fs::path executable;  // started as `trainctl worker`
  fs::path folder;      // with config.resolved.yaml; it gets the logs
  const spec::Trainer& trainer;
  const Machine& machine;
  const DeviceChoice& devices;  // each rank of which has its share of the cores
};

/// How the threads of its workers wait, while threads of the machine wait for a core `pressure`
/// percent of the time.
launch::Waiting waiting_of(const WorkerLaunch& wish, double pressure);

/// One worker: environment, libraries, allocator and logs, the same for whatever it is to do.
/// Throws Error(resource) where the allocator is not found.
launch::LaunchSpec worker_launch(const WorkerLaunch& wish);

}  // namespace trainctl::study
