#include "device/process_stats.hpp"
#include "spec/experiment/agreement.hpp"
#include "train/loop/trainer.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::train {

std::int64_t Trainer::begin_epoch() {
  position_.steps_in_epoch = session_.train.batches_per_epoch();
  if (std::exchange(goes_on_, false)) {
    rows_before_ = rows_in_epoch_;
    earlier_ = saved_times_;
    return position_.step_in_epoch;
  }
  epoch_done_ = false;
  epoch_value_.reset();
  reporter_.begin_epoch();
  step_.meter().reset();
  for (const auto& metric : session_.metrics) metric->reset();
  digest_ = 0;
  rows_in_epoch_ = rows_before_ = 0;
  position_.step_in_epoch = 0;
  return 0;
}

bool Trainer::train_epoch() {
  phase_ = events::Phase::train;
  beat(events::Phase::load);
  agreement_.begin_phase();
  cpu_before_ = device::cpu_seconds();
  read_before_ = device::storage_bytes_read();
  usage_.begin();
  const std::int64_t first = begin_epoch();
  if (first < position_.steps_in_epoch) session_.train.start_epoch(position_.epoch, first);
  for (std::int64_t i = first;
       i < position_.steps_in_epoch && stop_ == Stop::none && !at_step_limit(); ++i)
    train_batch(i);
  return stop_ != Stop::signal;
}

void Trainer::train_batch(std::int64_t index) {
  const bool opens = index % options_.accumulate == 0;
  if (opens && profiler_) {
    timer_.enter(Part::checkpoint);  // it may write files
    profiler_->before_step();
  }
  if (opens && ranges_) ranges_->begin_step();
  timer_.enter(Part::data_wait);
  const data::Batch* batch = session_.train.next();
  ASSERT(batch != nullptr);
  // How long the first step takes is counted from here.
  if (opens && !std::exchange(stepped_, true)) beat(events::Phase::startup);
  timer_.enter(Part::h2d);
  const device::DeviceBatch& on_device = feed_->put(*batch);
  last_batch_ = &on_device;
  ++replay_cost_.batches;
  const bool closes =
      (index + 1) % options_.accumulate == 0 || index + 1 == position_.steps_in_epoch;
  if (opens) open_window(index);
  const bool logs = (position_.global_step + 1) % options_.log_every == 0;
  dump_->begin(*batch, on_device, lr_);
  const StepRunner::Result result = step_.run({on_device, window_rows_, opens, closes, logs}, lr_);
  if (result == StepRunner::Result::not_finite) throw_diverged("the training loss is not finite");
  if (result == StepRunner::Result::gradient_not_finite)
    throw_diverged("the gradient is not finite");
  if (!session_.train.held()) digest_ += data::digest(*batch, session_.train.layout());
  rows_in_epoch_ += batch->global_valid;
  ++position_.step_in_epoch;
  if (closes) {
    ++position_.global_step;
    if (local_sgd_) share_weights();
    if (averager_) averager_->update(position_.global_step);
    after_step();
  } else {
    beat(phase_);
  }
}

void Trainer::open_window(std::int64_t first) {
  window_rows_ = window_rows(first);
  lr_ = session_.scheduler.lr(position_.epoch, position_.global_step);
  if (const auto momentum = session_.scheduler.momentum(position_.epoch, position_.global_step))
    session_.optimizer.set_momentum(*momentum);
}

/// Also before whatever looks at them: a save that is due, an average that takes them in, the end
/// of the epoch or of the run. A wish to stop, or to save by time, is heard at such steps only.
void Trainer::share_weights() {
  timer_.enter(Part::allreduce);
  const bool ends = position_.step_in_epoch == position_.steps_in_epoch || at_step_limit();
  const bool averages = averager_ && averager_->is_due(position_.global_step);
  const bool looked_at = ends || saves_by_steps() || averages;
  ranks_alike_ = local_sgd_->after_step(looked_at ? LocalSgd::Need::alike : LocalSgd::Need::none);
  timer_.enter(Part::other);
}

bool Trainer::saves_by_steps() const {
  const auto every = options_.saving ? options_.saving->every_n_steps : std::nullopt;
  return every && position_.global_step % *every == 0;
}

void Trainer::after_step() {
  const double now = timer_.last_reading();
  const bool logs = position_.global_step % options_.log_every == 0;
  usage_.step(now);
  if (logs || options_.device.is_cpu()) check_skipped();
  if (logs) judge_step(reporter_.log(position_, lr_, now, step_));
  reporter_.step(events::Phase::train, position_, now, &step_.meter());
  if (session_.communicator.place().world_size > 1) timer_.enter(Part::allreduce);
  if (saver_ && options_.saving->every_s)
    agreement_.wish_save(now - saved_at_ >= *options_.saving->every_s);
  const bool meets = local_sgd_
                         ? ranks_alike_
                         : position_.global_step % spec::agreement_every(options_.log_every) == 0;
  stop_ = agreement_.after_step(meets ? Agreement::At::meeting_point : Agreement::At::step, now);
  if (saver_ && stop_ != Stop::signal) save_if_due();
}

std::int64_t Trainer::rows_of(std::int64_t batch) const {
  const std::int64_t full = session_.batch_size * session_.communicator.place().world_size;
  return std::min(full, session_.train.samples() - batch * full);
}

std::int64_t Trainer::window_rows(std::int64_t first) const {
  const std::int64_t end = std::min(first + options_.accumulate, position_.steps_in_epoch);
  std::int64_t rows = 0;
  for (std::int64_t batch = first; batch < end; ++batch) rows += rows_of(batch);
  return rows;
}

}  // namespace trainctl::train
