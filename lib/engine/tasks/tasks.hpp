#pragma once

#include "engine/entry.h"
#include "spec/experiment/experiment.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

/// What a worker has for a task in place of training: a measurement, a step that is repeated.
struct TaskSetup {
  const TrainctlEngineRequest& request;
  const spec::Experiment& experiment;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// The task `check`: builds the model and compares the tensors that spec::kOfferedFile lists, the
/// patterns of `freeze` and those of the optimizer with its parameters. Writes every problem to
/// spec::kProblemsFile. Returns the exit code.
int check_model(const TaskSetup& setup);

/// The task `script`: traces the model with the task's weights in evaluation mode and writes it to
/// spec::kScriptFile, as a TorchScript program for any batch size that was read back and compared.
/// Throws Error(config) where tracing does not capture the model. Returns the exit code.
int export_script(const TaskSetup& setup);

/// In place of training: a few steps of the run's model, without weights of a file, on made-up
/// batches, and events::Measured of what they took. A batch that would take half of the memory, or
/// too long, is extrapolated from two small ones. Returns the exit code.
int measure(const TaskSetup& setup);

/// In place of training: sums of tensors from 1 KiB to 64 MiB over all ranks, one behind the other,
/// as often as half a second of each size allows; rank 0 tells events::LinkMeasured. Returns the
/// exit code: 0, or that of a signal.
int measure_link(const TrainctlEngineRequest& request, at::Device device,
                 const train::EventSink& emit);

/// Takes steps on made-up batches of loader.batch_size together with the other ranks, which
/// exchange gradients as in a run, and emits events::Measured with the times. Returns the exit
/// code.
int measure_shared_steps(const TaskSetup& setup);

/// In place of training: forward and backward pass of the step that the task's dump holds, with the
/// experiment's model, loss and precision, and events::Replayed of the result. Returns the exit
/// code, 0. Throws Error(checkpoint) where the dump is damaged, Error(config) where it has no
/// batch.
int replay(const TaskSetup& setup);

}  // namespace trainctl::engine
