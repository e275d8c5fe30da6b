#pragma once

#include "engine/entry.h"
#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>

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

/// Writes the model in evaluation mode as a TorchScript program for any batch size, by tracing it;
/// parameters keep their names. Reads the file back and compares its outputs with the model's.
/// Throws Error(config) where tracing does not capture the model, Error(resource) where the file
/// cannot be written.
void write_script(stage::Model& model, const stage::ModelContext& shape,
                  const std::filesystem::path& path);

/// The task `script`: builds the model, loads the task's weights and writes spec::kScriptFile into
/// the run folder. Returns the exit code.
int export_script(const TaskSetup& setup);

/// In place of training: a few steps of the run's model on made-up batches, and events::Measured of
/// what they took. A batch that would take half of the memory, or too long, is extrapolated from
/// two small ones. Weights of a file are not loaded: their values change nothing. Returns the exit
/// code.
int measure(const TaskSetup& setup);

struct LinkSetup {
  const TrainctlEngineRequest& request;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// In place of training: sums of tensors from 1 KiB to 64 MiB over all ranks, one behind the other,
/// as often as half a second of each size allows; rank 0 tells events::LinkMeasured. Returns the
/// exit code: 0, or that of a signal.
int measure_link(const LinkSetup& setup);

/// Takes steps on made-up batches of loader.batch_size together with the other ranks, which
/// exchange gradients as in a run, and emits events::Measured with the times. Returns the exit
/// code.
int measure_shared_steps(const TaskSetup& setup);

/// In place of training: forward and backward pass of the step that the task's dump holds, with the
/// model, loss and precision of the experiment, and events::Replayed of what came out. Returns the
/// exit code, 0 whatever the values are. Throws Error(checkpoint) where the dump is damaged,
/// Error(config) where it has no batch.
int replay(const TaskSetup& setup);

}  // namespace trainctl::engine
