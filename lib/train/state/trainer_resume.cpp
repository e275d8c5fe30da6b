#include "base/json_archive.hpp"
#include "train/loop/trainer.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/state/metric_state.hpp"
#include "train/state/rng.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>

// How a run goes on from a checkpoint, with as many ranks as wrote it or with others.

namespace trainctl::train {
namespace {

/// loader.batch_size with which so many ranks have the global batch of the checkpoint; 0: none.
std::int64_t keeping_batch(std::int64_t rows, std::int64_t batches, std::int64_t ranks) {
  const std::int64_t global = batches > 0 && rows % batches == 0 ? rows / batches : 0;
  return global % ranks == 0 ? global / ranks : 0;
}

/// How the names begin of what the exchange of gradients keeps.
constexpr const char* kSync = "sync/";

/// How the names begin of what other ranks own: a rank may own nothing itself, so they follow from
/// the model.
std::vector<std::string> names_of_others(const Session& session, const Options& options) {
  std::vector<std::string> names;
  if (options.strategy != spec::Strategy::zero1) return names;
  std::vector<stage::NamedTensor> trained = session.model.parameters();
  std::erase_if(trained, [](const auto& each) { return !each.tensor.requires_grad(); });
  const dist::Place place = session.communicator.place();
  const std::vector<int> owners = owners_of(trained, place.world_size);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (owners[i] != place.rank) names.push_back("optimizer/" + trained[i].name + ".");
  }
  return names;
}

/// What of the state is to be found in the checkpoint: one rank exchanges nothing, and has kept
/// nothing for it.
std::vector<StateTensor> kept_in(const SavedState& saved, std::vector<StateTensor> state) {
  if (saved.manifest().world_size == 1)
    std::erase_if(state, [](const StateTensor& one) { return one.name.starts_with(kSync); });
  return state;
}

}  // namespace

void Trainer::resume(const std::filesystem::path& checkpoint, EpochUnderWay epoch) {
  const dist::Place place = session_.communicator.place();
  const SavedState saved(checkpoint, place);
  in_context("the values in " + checkpoint.string(), [&] {
    MemoReader memo(saved.values());
    memorise(memo);
    memo.finish();
    check_position(saved.manifest());
    if (epoch == EpochUnderWay::begins_anew && !epoch_done_) forget_epoch();
    check_rows();
  });
  std::vector<std::string> of_others = names_of_others(session_, options_);
  if (!saved.same_world()) of_others.emplace_back(kSync);  // one rank has no use for it
  std::vector<StateTensor> own = kept_in(saved, state());
  for (const std::string& name : restore_growing_metrics(session_, saved)) {
    std::erase_if(own, [&name](const StateTensor& one) { return one.name == name; });
    of_others.push_back(name);
  }
  saved.copy_into(own, of_others);
  if (saved.same_world() || place.rank == 0)
    set_random_states(options_.device, saved.tensors("rng/"));
  if (!saved.same_world()) take_over_other_world(saved);
  if (!saved.same_world()) spread_sync_state(saved);
  if (options_.max_time_s) agreement_.set_deadline(begun_ + *options_.max_time_s);
  reporter_.begin_run(begun_);
  resumed_ = true;
  told_steps_ = position_.global_step;
  resumed_from_ = checkpoint;
  goes_on_ = !epoch_done_;
  if (goes_on_) fit_position(saved.manifest());
  if (!early_reason_.empty()) stop_reason_ = "early_stopping";
  if (epoch_done_ && at_step_limit()) stop_reason_ = "max_steps";
}

/// Both were written at once: where they differ, or count what cannot be, the file is not ours.
void Trainer::check_position(const checkpoint::Manifest& manifest) const {
  const Position at = next();
  ENSURE(
      checkpoint,
      at.epoch == manifest.epoch && at.step_in_epoch == manifest.step_in_epoch &&
          at.global_step == manifest.global_step,
      "they are of batch {} of epoch {} and step {}, and the manifest tells batch {} of epoch {} "
      "and step {}",
      at.step_in_epoch, at.epoch + 1, at.global_step, manifest.step_in_epoch, manifest.epoch + 1,
      manifest.global_step);
}

/// As if the epoch before had just ended: the one under way is the next.
void Trainer::forget_epoch() {
  --position_.epoch;
  epoch_done_ = true;
}

void Trainer::check_rows() const {
  const std::int64_t all = session_.train.samples();
  ENSURE(checkpoint, rows_in_epoch_ >= 0 && (epoch_done_ || rows_in_epoch_ <= all),
         "{} samples of the epoch are trained on, of {}", rows_in_epoch_, all);
}

/// What every rank has summed of the epoch so far, rank 0 takes over.
void Trainer::take_over_other_world(const SavedState& saved) {
  const at::NoGradGuard guard;
  if (session_.communicator.place().rank != 0) {
    for (const auto& metric : session_.metrics) metric->reset();
    step_.meter().reset();
    digest_ = 0;
  }
  for (std::size_t part = 1; part <= saved.others(); ++part) {
    const std::vector<stage::NamedTensor> sums = saved.tensors_of(part, "metrics/");
    for (std::size_t i = 0; i < std::min(sums.size(), session_.metrics.size()); ++i)
      stage::merge(*session_.metrics[i], sums[i].tensor);
    LossMeter meter(options_.device);
    recall(meter, saved.values_of(part).at("meter"));
    const std::vector<stage::NamedTensor> totals = saved.tensors_of(part, "meter/");
    for (std::size_t i = 0; i < std::min(totals.size(), meter.state().size()); ++i)
      meter.state()[i].tensor.copy_(totals[i].tensor);
    step_.meter().add(meter);
    digest_ += saved.values_of(part).at("digest").get<std::uint64_t>();
  }
  reporter_.begin_at(step_.meter());
}

/// What the exchange of gradients still owes differs between ranks; what counts is its mean.
void Trainer::spread_sync_state(const SavedState& saved) {
  if (saved.manifest().world_size == 1) return;  // nothing is owed
  const at::NoGradGuard guard;
  for (const dist::SyncTensor& kept : sync_->state()) {
    if (!kept.of_rank) continue;
    const std::string name = kSync + kept.name;
    for (std::size_t part = 1; part <= saved.others(); ++part) {
      for (const stage::NamedTensor& other : saved.tensors_of(part, name))
        if (other.name.empty()) kept.tensor.add_(other.tensor.to(kept.tensor.device()));
    }
    kept.tensor.div_(saved.manifest().world_size);
    session_.communicator.broadcast(kept.tensor, "broadcast of '" + name + "'");
  }
}

/// The next batch is the one behind the rows that were trained on: a whole number of windows of
/// batches, of which each rank now takes its share.
void Trainer::fit_position(const checkpoint::Manifest& manifest) {
  const int world = session_.communicator.place().world_size;
  const std::int64_t full = session_.batch_size * world;
  position_.steps_in_epoch = session_.train.batches_per_epoch();
  const std::int64_t all = std::min(session_.train.samples(), position_.steps_in_epoch * full);
  if (rows_in_epoch_ >= all) {
    position_.step_in_epoch = position_.steps_in_epoch;
    return;
  }
  const std::int64_t window = full * options_.accumulate;
  if (rows_in_epoch_ % window != 0) {
    const std::int64_t batch = keeping_batch(rows_in_epoch_, manifest.step_in_epoch, world);
    throw Error(
        ErrorKind::config,
        fmt::format(
            "{} samples of epoch {} are trained on, which is no whole number of steps of "
            "{} ranks with loader.batch_size {}: {}",
            rows_in_epoch_, position_.epoch + 1, world, session_.batch_size,
            batch > 0 ? fmt::format("set loader.batch_size={}, which keeps the global batch", batch)
                      : fmt::format("resume with {} ranks, or from a checkpoint at the end "
                                    "of an epoch",
                                    manifest.world_size)));
  }
  position_.step_in_epoch = rows_in_epoch_ / full;
}

}  // namespace trainctl::train
