#pragma once

#include "engine/entry.h"
#include "spec/experiment/experiment.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

/// The input of a job that replaces training, such as a measurement or a repeated step.
struct JobSetup {
  const TrainctlEngineRequest& request;
  const spec::Experiment& experiment;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// The job `check`: builds the model and compares its parameters with the tensors listed in
/// spec::kOfferedFile, the patterns of `freeze` and those of the optimizer. Writes every problem to
/// spec::kProblemsFile. Returns the exit code.
int check_model(const JobSetup& setup);

/// The job `script`: traces the model with the job's weights in evaluation mode and writes a
/// TorchScript program for any batch size to spec::kScriptFile, after reading it back and comparing
/// it. Throws Error(config) if tracing does not capture the model. Returns the exit code.
int export_script(const JobSetup& setup);

/// The job `measure`: runs a few steps of the run's model, without weights from a file, on random
/// batches, and emits events::Measured. A batch that would take half of the memory, or too long, is
/// extrapolated from two small ones. Returns the exit code.
int measure(const JobSetup& setup);

/// The job `link`: all-reduces tensors from 1 KiB to 64 MiB over all ranks, one after the other,
/// for half a second per size; rank 0 emits events::LinkMeasured. Returns the exit code: 0, or that
/// of a signal.
int measure_link(const TrainctlEngineRequest& request, at::Device device,
                 const train::EventSink& emit);

/// The job `gpu`: tests that the device of each rank computes, copies and exchanges what it
/// should, for about 20 seconds, and emits events::GpuChecked before and after each check. A failed
/// check is an event, not an error. Throws Error(resource) if the all-reduce cannot be tested
/// because another check has failed. Returns the exit code, 0. On a CPU, all sizes are small.
int test_gpu(const TrainctlEngineRequest& request, at::Device device, const train::EventSink& emit);

/// Runs steps on random batches of loader.batch_size together with the other ranks, which
/// synchronize gradients as in a run, and emits events::Measured with the times. Returns the exit
/// code.
int measure_shared_steps(const JobSetup& setup);

/// The job `replay`: runs forward and backward pass of the step in the job's dump with the
/// experiment's model, loss and precision, and emits events::Replayed. Returns the exit code, 0.
/// Throws Error(checkpoint) if the dump is damaged, Error(config) if it has no batch.
int replay(const JobSetup& setup);

}  // namespace trainctl::engine
