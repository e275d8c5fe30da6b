#pragma once

#include "config/diagnostics.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/run_size.hpp"
#include "spec/load.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::spec {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// What is known of a split once its headers have been read.
struct SplitFacts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  // 0: its labels are not classes
  std::optional<ImageSize> image =
      {};  // as it leaves the transforms; absent where that is not known
  std::optional<SampleKind> kind = {};  // absent where nobody trains on it
};

/// The checks that need the data: batch against samples, weights and top-k against classes, model,
/// loss and metrics against what a sample is made of, the schedule against the length of the run.
/// Without facts, the schedule against what the file alone tells. Problems go into `diagnostics`.
void check_against_data(const Loaded& loaded, const std::optional<SplitFacts>& train,
                        config::Diagnostics& diagnostics);

/// The model against the samples of training (nothing: not known), and against the file it comes
/// from. Problems go into `diagnostics`.
void check_model(const Loaded& loaded, const std::optional<ModelInput>& input,
                 config::Diagnostics& diagnostics);

/// What can be told of the loggers on the machine that listens: a command that is not there, a
/// folder that is missing, a logger that would write its files twice. Problems go into
/// `diagnostics`. Not for workers, which may run elsewhere.
void check_loggers(const Loaded& loaded, config::Diagnostics& diagnostics);

/// Why the steps of a run cannot be recorded as CUDA graphs, as far as its file tells: half a
/// sentence. Nothing: they can. `activation_checkpointing: auto` counts once it is settled.
std::optional<std::string> capture_obstacle(const Experiment& experiment,
                                            const Placement& placement);

/// Of a file that is to be trained with: `cuda_graphs: true` where there is an obstacle on this
/// machine is a problem.
void check_capture(const Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
