#include "base/json_archive.hpp"
#include "train/loop/trainer.hpp"
#include "train/state/metric_state.hpp"
#include "train/state/rng.hpp"

#include <set>
#include <utility>

// What a checkpoint of a run holds, and when one is written.

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

}  // namespace trainctl::train
