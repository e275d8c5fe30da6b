#pragma once

#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::spec {

/// Where the run takes place, as far as it is known without libtorch: by the machine's device
/// files.
struct Placement {
  bool on_gpus = false;
  int ranks = 1;       // of all nodes
  int ranks_here = 1;  // of one node
};

inline Placement placement_of(const Trainer& trainer, const Machine& machine) {
  const int gpus = static_cast<int>(machine.gpus.size());
  const bool on_gpus = trainer.accelerator == Accelerator::gpu ||
                       (trainer.accelerator == Accelerator::automatic && gpus > 0);
  const int here = trainer.devices.value_or(on_gpus && gpus > 0 ? gpus : 1);
  return {on_gpus, here * trainer.num_nodes, here};
}

}  // namespace trainctl::spec
