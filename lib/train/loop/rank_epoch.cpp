#include "train/loop/rank_epoch.hpp"

namespace trainctl::train {

events::RankEpoch rank_epoch(const RankShare& share) {
  const events::Timing& timing = share.ended.timing;
  const dist::SyncStats& exchanged = share.exchanged;
  const double exchange_s = exchanged.overlapped_s + exchanged.exposed_s;
  events::RankEpoch told;
  told.rank = share.rank;
  told.epoch = share.ended.epoch;
  told.global_step = share.ended.global_step;
  told.steps = share.steps;
  told.wall_s = timing.wall_s - timing.eval_s - timing.checkpoint_s;
  told.data_wait_s = timing.data_wait_s;
  told.step_s = timing.h2d_s + timing.forward_s + timing.backward_s + timing.optimizer_s;
  told.allreduce_exposed_s = timing.allreduce_exposed_s;
  told.overlapped_s = exchanged.overlapped_s;
  told.exposed_s = exchanged.exposed_s;
  told.overlap = exchange_s > 0 ? exchanged.overlapped_s / exchange_s : 0;
  told.payload_bytes = exchanged.payload_bytes;
  told.wire_bytes = exchanged.wire_bytes;
  told.bucket_bytes = share.bucket_bytes;
  return told;
}

}  // namespace trainctl::train
