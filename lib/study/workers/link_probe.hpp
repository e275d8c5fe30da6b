#pragma once

#include "events/records.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::study {

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

}  // namespace trainctl::study
