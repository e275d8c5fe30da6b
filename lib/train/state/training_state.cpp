#include "base/json_archive.hpp"
#include "stage/stages.hpp"
#include "train/loop/session.hpp"
#include "train/loop/trainer.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/state/saved_state.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

// What a checkpoint of a run holds, and when one is written.

namespace trainctl::train {
namespace {

/// The name of a metric's sums in a checkpoint; two metrics of one name are allowed.
inline std::string metric_state_name(const Session& session, std::size_t i) {
  return fmt::format("metrics/{}.{}", i, session.metrics[i]->name());
}

/// What a growing metric keeps of an epoch under way has the size that the checkpoint says. Returns
/// the names of these tensors.
inline std::vector<std::string> restore_growing_metrics(const Session& session,
                                                        const SavedState& saved) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < session.metrics.size(); ++i) {
    stage::GrowingMetric* metric = stage::as_growing(*session.metrics[i]);
    if (metric == nullptr) continue;
    names.push_back(metric_state_name(session, i));
    metric->reset();
    for (const stage::NamedTensor& one : saved.tensors(names.back())) metric->merge(one.tensor);
  }
  return names;
}

std::uint64_t bytes_of(const std::vector<stage::NamedTensor>& tensors) {
  constexpr std::uint64_t kOfHeader = 200;  // a tensor's entry and its padding
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes() + kOfHeader;
  return bytes;
}

std::set<std::string> buffer_names(const stage::Model& model) {
  std::set<std::string> names;
  for (stage::NamedTensor& buffer : model.buffers()) names.insert(std::move(buffer.name));
  return names;
}

}  // namespace

void Trainer::memorise(Memo& memo) {
  memo.group("position", [&] { position_.memorise(memo); });
  memo.value("epoch_done", &epoch_done_);
  memo.value("epochs_done", &epochs_done_);
  memo.value("rows_in_epoch", &rows_in_epoch_);
  memo.value("epoch_value", &epoch_value_);
  memo.value("early_reason", &early_reason_);
  const double now = session_.clock.now();
  double elapsed = now - begun_;
  memo.value("elapsed_s", &elapsed);
  begun_ = now - elapsed;
  memo.group("times", [&] { memorise_times(saved_times_, memo); });
  memo.value("lr", &lr_);
  memo.value("digest", &digest_);
  memo.group("run_digest", [&] { run_digest_.memorise(memo); });
  memo.group("meter", [&] { step_.meter().memorise(memo); });
  memo.group("reporter", [&] { reporter_.memorise(memo); });
  memo.group("keeper", [&] { keeper_.memorise(memo); });
  if (averager_) memo.group("averager", [&] { averager_->memorise(memo); });
  if (evaluator_) memo.group("evaluator", [&] { evaluator_->memorise(memo); });
  memo.group("train", [&] { session_.train.memorise(memo); });
  if (session_.validation != nullptr)
    memo.group("val", [&] { session_.validation->memorise(memo); });
  memorise_stages(memo);
}

void Trainer::memorise_stages(Memo& memo) {
  memo.group("optimizer", [&] { session_.optimizer.memorise(memo); });
  memo.group("scheduler", [&] { session_.scheduler.memorise(memo); });
  if (session_.stopper != nullptr) memo.group("stopper", [&] { session_.stopper->memorise(memo); });
}

/// Parameters, and what follows from the gradients that all ranks share, are alike on all of them.
/// The ranks of local SGD share none, those of ZeRO keep a part of the optimizer's state each.
std::vector<StateTensor> Trainer::state() {
  enum class Of { all, rank, owner };
  std::vector<StateTensor> all;
  const auto add = [&](const char* group, const std::vector<stage::NamedTensor>& tensors, Of of) {
    for (const auto& [name, tensor] : tensors)
      all.push_back({std::string(group) + "/" + name, tensor, of == Of::rank, of == Of::owner});
  };
  const bool is_sharded = options_.strategy == spec::Strategy::zero1;
  const Of of_gradients = local_sgd_ ? Of::rank : Of::all;
  add("model", session_.model.parameters(), Of::all);
  add("model", session_.model.buffers(), Of::rank);
  add("optimizer", session_.optimizer.state(), is_sharded ? Of::owner : of_gradients);
  if (step_.scaler() != nullptr) add("scaler", step_.scaler()->state(), of_gradients);
  for (const dist::SyncTensor& kept : sync_->state())
    add("sync", {{kept.name, kept.tensor}}, kept.of_rank ? Of::rank : Of::all);
  add("keeper", keeper_.state(), Of::all);
  add("meter", step_.meter().state(), Of::rank);
  for (std::size_t i = 0; i < session_.metrics.size(); ++i)
    all.push_back({metric_state_name(session_, i), session_.metrics[i]->sums(), true, false});
  if (!averager_) return all;
  const std::set<std::string> buffers = buffer_names(session_.model);
  for (const auto& average : averager_->state())
    add("averager", {average}, buffers.contains(average.name) ? Of::rank : Of::all);
  return all;
}

std::vector<StateTensor> Trainer::saved_state() {
  std::vector<StateTensor> all = state();
  if (options_.saving->weights_only) {
    std::erase_if(all, [](const StateTensor& one) {
      return !one.name.starts_with("model/") && !one.name.starts_with("averager/");
    });
  }
  return all;
}

Position Trainer::next() const {
  Position next = position_;
  if (epoch_done_) {
    ++next.epoch;
    next.step_in_epoch = 0;
  }
  return next;
}

checkpoint::Moment Trainer::moment() const {
  const Position at = next();
  return {at.global_step, at.epoch, at.step_in_epoch > 0};
}

std::uint64_t Trainer::state_bytes() {
  std::uint64_t bytes = bytes_of(saved_by(saved_state(), 0));
  const auto others = static_cast<std::uint64_t>(session_.communicator.place().world_size - 1);
  for (const StateTensor& one : saved_state()) {  // the ranks own about as much each
    if (one.of_owner) bytes += others * one.tensor.nbytes();
  }
  if (options_.saving->weights_only) return bytes;
  const bool keeps =
      options_.save_best || (session_.stopper != nullptr && session_.stopper->restore_best());
  const std::uint64_t copy = bytes_of(weights_of(session_.model));
  if (keeps && keeper_.state().empty()) bytes += copy;
  if (averager_ && averager_->state().empty()) bytes += copy;
  return bytes;
}

void Trainer::begin_saving() {
  saved_at_ = session_.clock.now();
  if (!saver_) return;
  saver_->begin(resumed_from_);
  if (session_.communicator.place().rank == 0) saver_->check_space(state_bytes());
}

void Trainer::save_if_due() {
  saver_->poll();
  const bool by_steps = saves_by_steps();
  if (!by_steps && !agreement_.save_agreed()) return;
  const events::Phase phase = std::exchange(phase_, events::Phase::checkpoint);
  take_state();
  write_state(by_steps ? "every_n_steps" : "every_t");
  phase_ = phase;
  beat(phase_);
  timer_.enter(Part::other);
}

void Trainer::take_state() {
  timer_.enter(Part::checkpoint);
  beat(events::Phase::checkpoint);
  if (!epoch_done_) {  // else they were looked at a moment ago
    check_skipped();
    check_weights();
  }
  copy_state();
}

void Trainer::copy_state() {
  const dist::Place place = session_.communicator.place();
  std::vector<stage::NamedTensor> tensors = saved_by(saved_state(), place.rank);
  MemoWriter memo;
  if (options_.saving->weights_only) {  // which of the two weights to take, it tells
    if (averager_) memo.group("averager", [&] { averager_->memorise(memo); });
  } else {
    for (const auto& [name, random] : random_states(options_.device))
      tensors.push_back({"rng/" + name, random});
    saved_times_ = epoch_done_ ? events::Timing() : timer_.so_far();
    if (!epoch_done_) add_times(saved_times_, earlier_);
    memorise(memo);
  }
  const Position at = next();
  Json meta = Json::object();
  meta["rank"] = place.rank;
  meta["world_size"] = place.world_size;
  meta["position"] = {{"epoch", moment().epoch_number()},
                      {"next_epoch", at.epoch + 1},
                      {"step_in_epoch", at.step_in_epoch},
                      {"global_step", at.global_step}};
  meta["training"] = memo.json();
  saver_->take(tensors, std::move(meta));
  saved_at_ = session_.clock.now();
}

Saver::About Trainer::about(const char* reason) const {
  return {.moment = moment(),
          .step_in_epoch = next().step_in_epoch,
          .samples_in_epoch = epoch_done_ ? 0 : rows_in_epoch_,
          .reason = reason,
          .value = epoch_done_ ? epoch_value_ : std::nullopt,
          .told_epoch = position_.epoch,
          .buckets = sync_->layout()};
}

void Trainer::write_state(const char* reason) {
  timer_.enter(Part::checkpoint);
  saver_->write(about(reason));
}

/// An epoch that max_steps or max_time cuts short is judged as it is, but a longer run takes the
/// rest of it: what is saved is the state before that.
void Trainer::take_cut() {
  if (!saver_ || position_.step_in_epoch >= position_.steps_in_epoch) return;
  timer_.enter(Part::checkpoint);
  beat(events::Phase::checkpoint);
  saver_->settle();
  cut_ = about(at_step_limit() ? "max_steps" : "max_time");
  if (!saver_->has(cut_->moment)) copy_state();
  beat(phase_);
  timer_.enter(Part::other);
}

void Trainer::write_cut() {
  if (!cut_) return;
  timer_.enter(Part::checkpoint);
  cut_->value = epoch_value_;
  if (!saver_->has(cut_->moment)) saver_->write(*cut_);
}

/// The last one is waited for, and all ranks learn whether it is there.
void Trainer::save_end() {
  phase_ = events::Phase::checkpoint;
  beat(phase_);
  saver_->tolerate_failures();
  saver_->settle();
  const bool asked = stop_ == Stop::signal;
  const checkpoint::Moment end = cut_ ? cut_->moment : moment();
  if (!saver_->has(end)) {
    if (cut_) {
      saver_->write(*cut_);  // again: it has failed
    } else {
      take_state();
      write_state(asked ? "signal" : "exit");
    }
    saver_->settle();
  }
  const bool saved = saver_->has(end);
  saved_the_end_ = saved && !options_.saving->weights_only;
  ENSURE(resource, saved || asked,
         "the run came to its end, but its last checkpoint could not be saved");
}

// How a run goes on from a checkpoint, with as many ranks as wrote it or with others.

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
