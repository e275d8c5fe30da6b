#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/export.hpp"
#include "config/diagnostics.hpp"
#include "events/records.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/load.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::study {

/// Whether anything of the experiment depends on the names or shapes of the model's tensors:
/// weights, freeze, patterns of the optimizer.
bool names_parameters(const spec::Loaded& loaded);

/// Builds the model in a worker process on the CPU, without training, and compares its tensors with
/// the header of the file of weights, with `freeze` and with the patterns of the optimizer; what
/// does not fit goes into `diagnostics`. `input` is what the headers of dataset.train say; without
/// it, the worker opens the data. Throws Error(data), Error(resource) where the model cannot be
/// built for such a reason.
void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 const fs::path& executable, config::Diagnostics& diagnostics);

/// What a model is measured with.
struct MeasureRequest {
  const spec::Loaded& loaded;
  std::filesystem::path executable;  // started as `trainctl worker`
  bool times_steps = false;
};

/// A few steps of the model in a worker process of its own, on the device of the run (on the CPU
/// where this machine has no GPU), in a folder that is removed. Throws what a run would end with
/// where model and data do not fit, and Error(resource) where the memory does not suffice.
events::Measured measure_model(const MeasureRequest& request);

/// Times steps that so many ranks take together, as processes side by side on the cores of this
/// machine, with the exchange of their gradients. `alone`: the model as measure_model() found it.
/// Throws as that does.
events::Measured measure_shared_steps(const MeasureRequest& request, const events::Measured& alone,
                                      int ranks);

struct LinkRequest {
  std::filesystem::path executable;  // started as `trainctl worker`
  int ranks = 2;
  bool on_gpus = false;
};

/// How many ranks this machine has devices for: its GPUs, or its cores.
struct LinkPlaces {
  int gpus = 0;
  int cores = 1;
};
LinkPlaces link_places();

/// So many processes of this machine sum tensors from 1 KiB to 64 MiB, some seconds long, in a
/// folder that is removed. Throws Error(resource) where it has fewer GPUs, and what the workers
/// fail with.
events::LinkMeasured measure_link(const LinkRequest& request);

/// A checkpoint whose model becomes a TorchScript program.
struct ScriptExport {
  fs::path checkpoint;
  checkpoint::Weights weights = checkpoint::Weights::validated;
  fs::path to;
  fs::path executable;  // started as `trainctl worker`
};

/// Builds the model of the experiment that the checkpoint stores, in a worker process on the CPU,
/// and writes it with the weights as TorchScript; `to` appears complete or not at all. Of the
/// experiment's data only the headers of dataset.train are read. Throws Error(checkpoint),
/// Error(config), Error(data), Error(resource).
checkpoint::Exported export_script(const ScriptExport& request);

}  // namespace trainctl::study
