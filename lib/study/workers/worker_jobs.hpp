#pragma once

#include "base/files.hpp"
#include "checkpoint/export.hpp"
#include "config/diagnostics.hpp"
#include "events/records.hpp"
#include "report/diagnosis/gpu_grade.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/job.hpp"
#include "spec/load.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::study {

/// Returns whether the experiment depends on the names or shapes of the model's tensors: weights,
/// freeze, patterns of the optimizer.
bool names_parameters(const spec::Loaded& loaded);

/// Builds the model in a worker process on the CPU, without training, and compares its tensors with
/// the header of the weights file, with `freeze` and with the optimizer's patterns; mismatches go
/// into `diagnostics`. `input` comes from the headers of dataset.train; without it, the worker
/// opens the data. Throws Error(data), Error(resource) when the model cannot be built for such a
/// reason.
void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 const fs::path& executable, config::Diagnostics& diagnostics);

/// The inputs of measure_model().
struct MeasureRequest {
  const spec::Loaded& loaded;
  std::filesystem::path executable;  // started as `trainctl worker`
  bool times_steps = false;
};

/// Measures a few steps of the model in a separate worker process, on the device of the run, in a
/// temporary folder. Throws the error that a run would end with if its device is missing or if
/// model and data do not fit, and Error(resource) when there is not enough memory.
events::Measured measure_model(const MeasureRequest& request);

/// Times steps of `ranks` processes that run concurrently on the cores of this machine, including
/// the all-reduce of their gradients. `alone` is the result of measure_model(). Throws as
/// measure_model() does.
events::Measured measure_shared_steps(const MeasureRequest& request, const events::Measured& alone,
                                      int ranks);

/// The ranks and devices of measure_link() and test_gpus().
struct LinkRequest {
  std::filesystem::path executable;  // started as `trainctl worker`
  int ranks = 2;
  bool on_gpus = false;
};

/// The number of ranks that this machine has devices for: its GPUs, or its cores.
struct LinkDevices {
  int gpus = 0;
  int cores = 1;
};
/// Counts the devices of this machine; asks the CUDA driver in a child process.
LinkDevices count_link_devices();

/// Times all-reduce of tensors from 1 KiB to 64 MiB among `ranks` processes of this machine, for
/// some seconds, in a temporary folder. Throws Error(resource) when there are fewer GPUs than
/// ranks, and the errors of the workers.
events::LinkMeasured measure_link(const LinkRequest& request);

/// Tests each device in a separate process, for about 20 seconds. A crash, a check that takes
/// more than a minute and any other failure of a process are part of the result. Throws
/// Error(resource) when there are fewer GPUs than ranks, and the error of a stop signal.
report::GpuTest test_gpus(const LinkRequest& request);

/// A checkpoint whose model is exported as a TorchScript program.
struct ScriptExport {
  fs::path checkpoint;
  checkpoint::Weights weights = checkpoint::Weights::validated;
  fs::path to;
  fs::path executable;                              // started as `trainctl worker`
  std::optional<spec::Quantization> quantize = {};  // convert the model to int8
};

/// Builds the model of the experiment that the checkpoint stores, in a worker process on the CPU,
/// and writes it with the weights as TorchScript; `to` is written atomically. Only the headers of
/// dataset.train are read from the data, except for the calibration of an int8 model. Throws
/// Error(checkpoint), Error(config), Error(data), Error(resource).
checkpoint::Exported export_script(const ScriptExport& request);

}  // namespace trainctl::study
