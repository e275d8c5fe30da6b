#pragma once

#include "dist/grad_sync.hpp"
#include "events/records.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// What one rank knows of an epoch that is over.
struct RankShare {
  int rank = 0;
  const events::EpochEnded& ended;   // with this rank's own timing
  std::int64_t steps = 0;            // of the optimizer, by this process
  const dist::SyncStats& exchanged;  // of gradients and weights
  std::vector<std::int64_t> bucket_bytes;
};

events::RankEpoch rank_epoch(const RankShare& share);

}  // namespace trainctl::train
