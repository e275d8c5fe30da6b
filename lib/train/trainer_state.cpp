#include "base/json_memo.hpp"
#include "train/rng.hpp"
#include "train/trainer.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>
#include <utility>

// What a checkpoint of a run holds, when one is written, and how a run goes on from it.

namespace trainctl::train {
namespace {

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

/// The largest batch of one rank with which windows end where the rows do; 0: there is none.
std::int64_t fitting_batch(std::int64_t rows, std::int64_t most, std::int64_t batches) {
  for (std::int64_t batch = most; batch > 0; --batch) {
    if (rows % (batch * batches) == 0) return batch;
  }
  return 0;
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
std::vector<StateTensor> Trainer::state() {
  enum class Of { all, rank };
  std::vector<StateTensor> all;
  const auto add = [&](const char* group, const std::vector<stage::NamedTensor>& tensors, Of of) {
    for (const auto& [name, tensor] : tensors)
      all.push_back({std::string(group) + "/" + name, tensor, of == Of::rank});
  };
  add("model", session_.model.parameters(), Of::all);
  add("model", session_.model.buffers(), Of::rank);
  add("optimizer", session_.optimizer.state(), Of::all);
  if (step_.scaler() != nullptr) add("scaler", step_.scaler()->state(), Of::all);
  add("keeper", keeper_.state(), Of::all);
  add("meter", step_.meter().state(), Of::rank);
  for (std::size_t i = 0; i < session_.metrics.size(); ++i) {
    stage::Metric& metric = *session_.metrics[i];  // two of one name are allowed
    add("metrics", {{fmt::format("{}.{}", i, metric.name()), metric.sums()}}, Of::rank);
  }
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

checkpoint::Moment Trainer::moment() const { return {position_.global_step, next().epoch}; }

std::uint64_t Trainer::state_bytes() {
  std::uint64_t bytes = bytes_of(saved_by(saved_state(), 0));
  if (options_.saving->weights_only) return bytes;
  const bool keeps =
      options_.save_best || (session_.stopper != nullptr && session_.stopper->restore_best());
  if (keeps && keeper_.state().empty()) bytes += bytes_of(weights_of(session_.model));
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
  const auto& every = options_.saving->every_n_steps;
  const bool by_steps = every && position_.global_step % *every == 0;
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
    memorise(memo);
  }
  const Position at = next();
  Json meta = Json::object();
  meta["rank"] = place.rank;
  meta["world_size"] = place.world_size;
  meta["position"] = {
      {"epoch", at.epoch}, {"step_in_epoch", at.step_in_epoch}, {"global_step", at.global_step}};
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

void Trainer::resume(const std::filesystem::path& checkpoint) {
  const dist::Place place = session_.communicator.place();
  const SavedState saved(checkpoint, place);
  in_context("the values in " + checkpoint.string(), [&] {
    MemoReader memo(saved.values());
    memorise(memo);
    memo.finish();
    check_position(saved.manifest());
  });
  saved.copy_into(state());
  if (saved.same_world() || place.rank == 0)
    set_random_states(options_.device, saved.tensors("rng/"));
  if (!saved.same_world()) take_over_other_world(saved);
  if (options_.max_time_s) agreement_.set_deadline(begun_ + *options_.max_time_s);
  resumed_ = true;
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
      at.step_in_epoch, at.epoch, at.global_step, manifest.step_in_epoch, manifest.epoch,
      manifest.global_step);
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
    for (std::size_t i = 0; i < std::min(sums.size(), session_.metrics.size()); ++i) {
      at::Tensor& own = session_.metrics[i]->sums();
      own.add_(sums[i].tensor.to(own.device()));
    }
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
    const std::int64_t batch =
        fitting_batch(rows_in_epoch_, session_.batch_size, world * options_.accumulate);
    throw Error(
        ErrorKind::config,
        fmt::format("{} samples of epoch {} are trained on, which is no whole number of steps of "
                    "{} ranks with loader.batch_size {}: {}",
                    rows_in_epoch_, position_.epoch + 1, world, session_.batch_size,
                    batch > 0 ? fmt::format("set loader.batch_size={}", batch)
                              : fmt::format("go on with {} ranks, or from a checkpoint at the end "
                                            "of an epoch",
                                            manifest.world_size)));
  }
  position_.step_in_epoch = rows_in_epoch_ / full;
}

}  // namespace trainctl::train
