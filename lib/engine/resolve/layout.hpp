#pragma once

#include "dist/communicator.hpp"
#include "spec/experiment/experiment.hpp"
#include "stage/registry.hpp"
#include "train/measure/layout.hpp"

#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl::engine {

/// The inputs of the choice of a memory format.
struct LayoutContext {
  const spec::Experiment& experiment;
  const stage::Catalogue& catalogue;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  std::optional<bool> before = {};  // the choice of the run that is resumed or evaluated
  bool trains = true;               // else a CPU is not probed
};

/// Returns trainer.channels_last; for `auto` the choice of the run that is resumed, else on a GPU
/// that of train::choose_layout(), from the operations of one forward pass of a throwaway model,
/// and on a CPU that of train::probe_layout(), with the number of threads that is set. Draws random
/// numbers: seed afterwards.
train::LayoutChoice choose_layout(const LayoutContext& context);

/// The same on several ranks: rank 0 chooses for all.
train::LayoutChoice choose_layout(const LayoutContext& context, dist::Communicator& communicator);

}  // namespace trainctl::engine
