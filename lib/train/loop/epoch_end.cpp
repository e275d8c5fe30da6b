#include "base/hash.hpp"
#include "device/process_stats.hpp"
#include "spec/experiment/run_size.hpp"
#include "stage/stages.hpp"
#include "train/loop/progress_reporter.hpp"
#include "train/loop/trainer.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::train {
namespace {

/// The sums of the metrics, for a validation that is given up: it uses them up.
class KeptSums {
 public:
  explicit KeptSums(const Session& session) : session_(session) {
    if (session.validation == nullptr) return;
    for (const auto& metric : session.metrics) sums_.push_back(metric->sums().clone());
  }
  void put_back() const {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      session_.metrics[i]->reset();
      stage::merge(*session_.metrics[i], sums_[i]);
    }
  }

 private:
  const Session& session_;
  std::vector<at::Tensor> sums_;
};

std::optional<double> find(const events::Metrics& metrics, const std::string& name) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.first == name; });
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

/// Steps are not added: those of both may be the same.
void add(dist::SyncStats& sums, const dist::SyncStats& more) {
  sums.payload_bytes += more.payload_bytes;
  sums.wire_bytes += more.wire_bytes;
  sums.overlapped_s += more.overlapped_s;
  sums.exposed_s += more.exposed_s;
}

}  // namespace

void share_buffers(const Session& session) {
  for (const auto& [name, buffer] : session.model.buffers()) {
    session.communicator.broadcast(buffer, "broadcast of buffer '" + name + "'");
  }
}

std::optional<events::Metrics> Trainer::validate(std::optional<std::int64_t> limit) {
  phase_ = events::Phase::validate;
  beat(events::Phase::load);
  timer_.enter(Part::eval);
  agreement_.begin_phase();
  Position shown = position_;
  shown.steps_in_epoch = limit.value_or(session_.validation->batches_per_epoch());
  auto metrics = evaluator_->run(limit, [&](std::int64_t batch) {
    const double now = session_.clock.now();
    shown.step_in_epoch = batch + 1;
    reporter_.step(events::Phase::validate, shown, now, nullptr);
    const bool settles = shown.step_in_epoch % spec::agreement_every(options_.log_every) == 0;
    const Stop wish =
        agreement_.after_step(settles ? Agreement::At::meeting_point : Agreement::At::step, now);
    if (wish == Stop::signal) stop_ = wish;  // max_time waits for the end of the validation
    return stop_ != Stop::signal;
  });
  timer_.enter(Part::other);
  return metrics;
}

/// Tells the supervisor, which counts the seconds since then, where the phase has a limit.
void Trainer::beat(events::Phase phase) const {
  if (session_.heartbeat != nullptr) session_.heartbeat->stamp(phase, position_.global_step);
}

bool Trainer::finish_epoch() {
  events::EpochEnded ended;
  ended.epoch = position_.epoch;
  ended.global_step = position_.global_step;
  ended.lr = lr_;
  take_cut();
  if (!judge_epoch(ended)) {
    cut_.reset();
    return false;
  }
  keep_best(ended.improved);
  if (stop_ == Stop::none) stop_ = agreement_.settle(timer_.last_reading());
  ended.data_digest = epoch_digest();
  ++epochs_done_;
  epoch_done_ = true;
  const bool sound = diverged_reason_.empty();
  const char* reason = reason_to_save(ended.improved);
  const bool saves = saver_ && sound && !cut_ && stop_ != Stop::signal && reason != nullptr;
  if (saves) take_state();
  time_epoch(ended);
  tell_share(ended);
  add_earlier_starts(ended);
  if (session_.communicator.place().rank == 0) reporter_.emit(ended);
  if (!sound) throw_rose(diverged_reason_);
  // Only now: an epoch that a checkpoint holds is never told again.
  if (saves) write_state(reason);
  write_cut();
  settle_stop_reason();
  return stop_ != Stop::signal;
}

/// Of a checkpoint after the epoch; null where none is due. The same on all ranks.
const char* Trainer::reason_to_save(bool improved) const {
  if ((position_.epoch + 1) % options_.save_every == 0) return "every_n_epochs";
  return improved && options_.save_on_best ? "best" : nullptr;
}

void Trainer::settle_stop_reason() {
  if (at_step_limit()) stop_reason_ = "max_steps";
  if (stop_ == Stop::time) stop_reason_ = "max_time";
  if (early_reason_.empty()) return;
  stop_reason_ = "early_stopping";
  if (session_.communicator.place().rank == 0)
    reporter_.emit(events::StoppedEarly{position_.epoch, early_reason_});
}

bool Trainer::judge_epoch(events::EpochEnded& ended) {
  if (options_.may_skip > 0 && step_.meter().weight() == 0)
    throw_diverged("no step of the epoch had a finite loss");
  check_skipped();
  dump_->end();
  const KeptSums sums(session_);
  const Evaluation training = evaluation_of(session_, session_.train, "train");
  const std::vector<events::TableRow> tables = collect_tables(training);
  ended.metrics = collect_metrics(training, step_.meter());
  check_loss("training", ended.metrics.front().second);
  share_buffers(session_);
  check_weights();
  const AveragedWeights averaged(averager());
  if (averager_) share_buffers(session_);  // what is judged is what rank 0 saves
  if (evaluator_ && (position_.epoch + 1) % options_.validate_every == 0) {
    const auto validation = validate(std::nullopt);
    if (!validation) {
      sums.put_back();
      return false;
    }
    check_loss("validation", validation->front().second);
    emit_tables(tables);
    emit_tables(evaluator_->tables());
    ended.metrics.insert(ended.metrics.end(), validation->begin(), validation->end());
  } else {
    emit_tables(tables);
  }
  skipped_.tell("train", session_.train, session_.emit);
  if (session_.validation != nullptr) skipped_.tell("val", *session_.validation, session_.emit);
  judge(ended.metrics, ended);
  return true;
}

/// Writing it may take longer than the epoch has.
void Trainer::settle_best() {
  timer_.enter(Part::checkpoint);
  beat(events::Phase::checkpoint);
  keeper_.settle();
  beat(phase_);
  timer_.enter(Part::other);
}

void Trainer::keep_best(bool improved) {
  timer_.enter(Part::checkpoint);
  phase_ = events::Phase::checkpoint;
  beat(phase_);
  keeper_.save_due(position_.epoch);
  if (improved && options_.save_on_best) keeper_.save_soon();
  beat(events::Phase::load);  // a rank that has not saved waits for those that do
  timer_.enter(Part::other);
}

/// Of this process alone.
void Trainer::time_epoch(events::EpochEnded& ended) {
  ended.timing = timer_.end_epoch(rows_in_epoch_ - rows_before_);
  add_probes(ended);
  timer_.begin_epoch();
}

/// A resumed epoch is measured as a whole: times and samples. Shares of a device, of a CPU and of a
/// disk stay those of this process.
void Trainer::add_earlier_starts(events::EpochEnded& ended) {
  add_times(ended.timing, std::exchange(earlier_, {}));
  ended.timing.samples = rows_in_epoch_;
  ended.timing.samples_per_s = training_rate(ended.timing);
}

/// Of a run of several ranks, whatever they exchange: each speaks for itself.
void Trainer::tell_share(const events::EpochEnded& ended) {
  const dist::Place place = session_.communicator.place();
  if (place.world_size == 1) return;
  dist::SyncStats exchanged = sync_->take_stats();
  add(exchanged, step_.take_shared());
  if (local_sgd_) add(exchanged, local_sgd_->take_stats());
  const std::int64_t steps =
      position_.global_step - std::exchange(told_steps_, position_.global_step);
  session_.emit(rank_epoch({place.rank, ended, steps, exchanged, sync_->bucket_bytes()}));
}

/// All ranks see the same loss, and decide alike; one that was left out says nothing.
void Trainer::judge_step(std::optional<double> loss) {
  if (!loss) return;
  check_loss("training", *loss);
  if (session_.stopper == nullptr) return;
  const stage::StopDecision decision = session_.stopper->observe_step(position_.global_step, *loss);
  if (decision.diverged) throw_rose(decision.reason);
}

void Trainer::judge(const events::Metrics& metrics, events::EpochEnded& ended) {
  if (const auto value = find(metrics, session_.scheduler.monitor())) {
    session_.scheduler.observe(position_.epoch, *value);
  }
  stage::StopDecision decision;
  if (session_.stopper != nullptr) {
    if (const auto value = find(metrics, session_.stopper->monitor())) {
      decision = session_.stopper->observe(position_.epoch, *value);
    }
  }
  if (decision.stop) (decision.diverged ? diverged_reason_ : early_reason_) = decision.reason;
  epoch_value_ = find(metrics, options_.monitor);
  settle_best();
  ended.improved = keeper_.observe(position_, epoch_value_, decision);
}

void Trainer::emit_tables(std::vector<events::TableRow> rows) const {
  if (session_.communicator.place().rank != 0) return;
  for (events::TableRow& row : rows) {
    row.epoch = position_.epoch;
    session_.emit(row);
  }
}

void Trainer::add_probes(events::EpochEnded& ended) {
  events::Timing& timing = ended.timing;
  const double wall = std::max(timing.wall_s, 1e-9);
  timing.cpu_percent = 100 * (device::cpu_seconds() - cpu_before_) / wall;
  timing.rss_mb = device::peak_rss_mb();
  timing.gpu_mem_mb = device::cuda_peak_memory_mb(options_.device);
  timing.read_mb_s = static_cast<double>(device::storage_bytes_read() - read_before_) / 1e6 / wall;
  timing.gpu_util = usage_.take_gpu_util();
  ended.usage = usage_.take(timing.wall_s);
  replay_cost_.training_s += timing.wall_s;
  replay_cost_.passes_s += timing.forward_s + timing.backward_s;
}

std::string Trainer::epoch_digest() {
  // A rank whose device had less memory free may see pixels where another sees plans.
  const at::Tensor sums = at::empty({2}, at::kLong);
  auto* values = reinterpret_cast<std::uint64_t*>(sums.mutable_data_ptr<std::int64_t>());
  values[0] = digest_;
  values[1] = session_.train.held() ? 1 : 0;
  session_.communicator.sum(sums, "sum of the data digests");
  if (values[1] > 0) {  // the pixels were never seen, but on a device
    run_digest_.miss();
    return "";
  }
  run_digest_.add(values[0]);
  return to_hex(values[0]);
}

}  // namespace trainctl::train
