#pragma once

#include "base/files.hpp"
#include "checkpoint/export.hpp"

namespace trainctl::study {

/// A checkpoint whose model becomes a TorchScript program.
struct ScriptExport {
  fs::path checkpoint;
  checkpoint::Weights weights = checkpoint::Weights::validated;
  fs::path to;
  fs::path executable;  // started as `trainctl worker`
};

/// Builds the model of the experiment that the checkpoint stores, in a worker process on the CPU,
/// and writes it with the weights as TorchScript; `to` appears complete or not at all. Needs the
/// experiment's dataset.train, whose headers tell the shape of a sample. Throws Error(checkpoint),
/// Error(config), Error(data), Error(resource).
checkpoint::Exported export_script(const ScriptExport& request);

}  // namespace trainctl::study
