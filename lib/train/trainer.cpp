#include "train/trainer.hpp"

#include "base/hash.hpp"
#include "device/probes.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainctl::train {
namespace {

Agreement::Cadence cadence_for(at::Device device) {
  return device.is_cpu() ? Agreement::Cadence::every_step : Agreement::Cadence::log_points;
}

std::optional<double> find(const events::Metrics& metrics, const std::string& name) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.first == name; });
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

/// Of the optimizer.
std::int64_t steps_per_epoch(const Session& session, const Options& options) {
  return (session.train.batches_per_epoch() + options.accumulate - 1) / options.accumulate;
}

StopSources stop_sources(const Session& session, const Options& options) {
  return {session.stop_signal, options.max_time_s ? session.clock.now() + *options.max_time_s : 0};
}

/// Running statistics are of the samples that a rank saw: those of rank 0 count.
void share_buffers(const Session& session) {
  for (const auto& [name, buffer] : session.model.buffers()) {
    session.communicator.broadcast(buffer, "broadcast of buffer '" + name + "'");
  }
}

}  // namespace

std::unique_ptr<dist::GradSync> synchronise(const Session& session) {
  share_buffers(session);
  return session.communicator.sync_gradients(trainable(session.model), session.buckets);
}

Trainer::Trainer(const Session& session, Options options)
    : session_(session),
      options_(std::move(options)),
      timer_(session.clock, device::make_event_line(options_.device, static_cast<int>(kParts))),
      sync_(synchronise(session)),
      feed_(make_feed(evaluation_of(session, session.train, "train"), options_)),
      step_(session, options_, timer_, *sync_),
      keeper_(session, options_),
      reporter_(session, options_.device),
      agreement_(session.communicator, stop_sources(session, options_),
                 cadence_for(options_.device)) {
  ENSURE(config, !session.scheduler.cycles_momentum() || session.optimizer.has_momentum(),
         "the scheduler cycles a momentum that the optimizer does not have");
  if (session.validation != nullptr)
    evaluator_.emplace(evaluation_of(session, *session.validation, "val"), options_);
  if (options_.profiler && session.communicator.place().rank == 0)
    profiler_.emplace(*options_.profiler, options_.device, session);
  if (options_.profiler && options_.profiler->nvtx) show_parts();
  if (options_.averaging)
    averager_.emplace(session.model, *options_.averaging, steps_per_epoch(session, options_));
}

events::Finished Trainer::run() {
  session_.model.set_mode(stage::RunMode::train);
  sanity_check();
  while (train_epoch() && finish_epoch() && has_next_epoch()) ++position_.epoch;
  return finish();
}

void Trainer::sanity_check() {
  if (evaluator_ && options_.sanity_steps > 0) {
    timer_.begin_epoch();
    validate(options_.sanity_steps);
  }
}

bool Trainer::train_epoch() {
  phase_ = events::Phase::train;
  beat(events::Phase::load);
  timer_.begin_epoch();
  reporter_.begin_epoch();
  cpu_before_ = device::cpu_seconds();
  read_before_ = device::storage_bytes_read();
  step_.meter().reset();
  for (const auto& metric : session_.metrics) metric->reset();
  digest_ = 0;
  rows_in_epoch_ = 0;
  position_.step_in_epoch = 0;
  position_.steps_in_epoch = session_.train.batches_per_epoch();
  session_.train.start_epoch(position_.epoch);
  for (std::int64_t i = 0; i < position_.steps_in_epoch && stop_ == Stop::none && !at_step_limit();
       ++i)
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
  if (position_.global_step == 0 && opens && session_.heartbeat != nullptr)
    session_.heartbeat->stamp(events::Phase::startup, 0);
  timer_.enter(Part::h2d);
  const device::DeviceBatch& on_device = feed_->put(*batch);
  const bool closes =
      (index + 1) % options_.accumulate == 0 || index + 1 == position_.steps_in_epoch;
  if (opens) {
    window_rows_ = window_rows(index);
    lr_ = session_.scheduler.lr(position_.epoch, position_.global_step);
    if (const auto momentum = session_.scheduler.momentum(position_.epoch, position_.global_step))
      session_.optimizer.set_momentum(*momentum);
  }
  const bool logs = (position_.global_step + 1) % options_.log_every == 0;
  const StepRunner::Result result = step_.run({on_device, window_rows_, opens, closes, logs}, lr_);
  if (result == StepRunner::Result::not_finite) throw_diverged("the training loss is not finite");
  if (result == StepRunner::Result::gradient_not_finite)
    throw_diverged("the gradient is not finite");
  if (!session_.train.held()) digest_ += data::digest(*batch, session_.train.layout());
  rows_in_epoch_ += batch->global_valid;
  ++position_.step_in_epoch;
  if (closes) {
    ++position_.global_step;
    if (averager_) averager_->update(position_.global_step);
    after_step();
  } else if (session_.heartbeat != nullptr) {
    session_.heartbeat->stamp(phase_, position_.global_step);
  }
}

void Trainer::after_step() {
  const double now = timer_.last_reading();
  const bool logs = position_.global_step % options_.log_every == 0;
  if (logs || options_.device.is_cpu()) check_skipped();
  if (logs) judge_step(reporter_.log(position_, lr_, now, step_));
  reporter_.step(events::Phase::train, position_, now, &step_.meter());
  if (session_.communicator.place().world_size > 1) timer_.enter(Part::allreduce);
  stop_ = agreement_.after_step(logs ? Agreement::At::log_point : Agreement::At::step, now);
}

bool Trainer::has_next_epoch() const {
  return stop_reason_.empty() &&
         (!options_.max_epochs || position_.epoch + 1 < *options_.max_epochs);
}

bool Trainer::at_step_limit() const {
  return options_.max_steps && position_.global_step >= *options_.max_steps;
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

void Trainer::check_loss(const char* which, double loss) const {
  if (!std::isfinite(loss)) throw_diverged(fmt::format("the {} loss is {}", which, loss));
}

/// Before they are judged or written; the loss of the last step was of the weights before it.
void Trainer::check_weights() const {
  const std::string name = not_finite(weights_of(session_.model));
  if (!name.empty()) throw_diverged(fmt::format("'{}' holds values that are not finite", name));
}

void Trainer::check_skipped() const {
  if (step_.scaler() == nullptr) return;
  const std::int64_t skipped = step_.scaler()->most_skipped_in_a_row();
  if (skipped <= options_.may_skip) return;
  if (step_.scaler()->stays_out()) throw_diverged("the gradient is not finite", skipped);
  throw_diverged(fmt::format("the gradients of {} step{} in a row were not finite", skipped,
                             skipped == 1 ? "" : "s"));
}

void Trainer::tell_skipped() const {
  if (step_.scaler() == nullptr || session_.communicator.place().rank != 0) return;
  const std::int64_t skipped = step_.scaler()->skipped();
  if (skipped == 0) return;
  std::string message =
      fmt::format("{} of {} steps were left out, because a gradient was not finite", skipped,
                  position_.global_step);
  if (options_.forward.precision == spec::Precision::fp16_mixed)
    message += fmt::format("; the loss is scaled by {:g} now", step_.scaler()->current_scale());
  session_.emit(events::Warning{message, {}});
}

/// A GPU tells late, but its flag stays up: the steps since then tell which one it was.
void Trainer::throw_diverged(const std::string& what, std::int64_t steps_ago) const {
  std::string seen;
  if (steps_ago > 0)
    seen = fmt::format(", seen after step {}; the weights {}", position_.global_step,
                       step_.keeps_weights() ? "are those before it" : "have taken it in since");
  const std::string found = step_.anomaly();
  const std::string first =
      found.empty() ? "" : fmt::format("; the first value that is not finite: {}", found);
  const char* cure = options_.detect_anomaly
                         ? "lower optimizer.lr or set trainer.gradient_clip_val"
                         : "lower optimizer.lr, set trainer.gradient_clip_val, or find the layer "
                           "with trainer.detect_anomaly=true";
  throw Error(ErrorKind::diverged, fmt::format("{} at step {} of epoch {}{}{}: {}", what,
                                               position_.global_step - steps_ago,
                                               position_.epoch + 1, seen, first, cure));
}

void Trainer::throw_rose(const std::string& what) const {
  throw Error(ErrorKind::diverged,
              fmt::format("{} at step {} of epoch {}: lower optimizer.lr or set "
                          "trainer.gradient_clip_val",
                          what, position_.global_step, position_.epoch + 1));
}

void Trainer::show_parts() {
  if (PartRanges::available()) {
    timer_.show_as(&ranges_.emplace());
  } else if (session_.communicator.place().rank == 0) {
    session_.emit(events::Warning{
        "profiler.nvtx: this libtorch has no CUDA half, and so no NVTX ranges", {}});
  }
}

void Trainer::finish_profile() {
  if (!profiler_) return;
  profiler_->finish();
  if (!profiler_->written().empty()) return;
  session_.emit(events::Warning{
      fmt::format("no profile was written: the run ended after {} step{}, before the first that "
                  "is recorded (profiler.wait {}, profiler.warmup {})",
                  position_.global_step, position_.global_step == 1 ? "" : "s",
                  options_.profiler->wait, options_.profiler->warmup),
      {}});
}

std::optional<events::Metrics> Trainer::validate(std::optional<std::int64_t> limit) {
  phase_ = events::Phase::validate;
  beat(events::Phase::load);
  timer_.enter(Part::eval);
  Position shown = position_;
  shown.steps_in_epoch = limit.value_or(session_.validation->batches_per_epoch());
  auto metrics = evaluator_->run(limit, [&](std::int64_t batch) {
    const double now = session_.clock.now();
    shown.step_in_epoch = batch + 1;
    reporter_.step(events::Phase::validate, shown, now, nullptr);
    const bool settles = shown.step_in_epoch % options_.log_every == 0;
    const Stop wish =
        agreement_.after_step(settles ? Agreement::At::log_point : Agreement::At::step, now);
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
  if (options_.may_skip > 0 && step_.meter().weight() == 0)
    throw_diverged("no step of the epoch had a finite loss");
  check_skipped();
  const Evaluation training = evaluation_of(session_, session_.train, "train");
  emit_tables(collect_tables(training));
  ended.metrics = collect_metrics(training, step_.meter());
  check_loss("training", ended.metrics.front().second);
  share_buffers(session_);
  check_weights();
  const AveragedWeights averaged(averager());
  if (averager_) share_buffers(session_);  // what is judged is what rank 0 saves
  if (evaluator_ && (position_.epoch + 1) % options_.validate_every == 0) {
    const auto validation = validate(std::nullopt);
    if (!validation) return false;
    check_loss("validation", validation->front().second);
    emit_tables(evaluator_->tables());
    ended.metrics.insert(ended.metrics.end(), validation->begin(), validation->end());
  }
  skipped_.tell("train", session_.train, session_.emit);
  if (session_.validation != nullptr) skipped_.tell("val", *session_.validation, session_.emit);
  judge(ended.metrics, ended);
  timer_.enter(Part::checkpoint);
  phase_ = events::Phase::checkpoint;
  beat(phase_);
  keeper_.save_due(position_.epoch);
  beat(events::Phase::load);  // a rank that has not saved waits for those that do
  timer_.enter(Part::other);
  if (stop_ == Stop::none) stop_ = agreement_.settle(timer_.last_reading());
  ended.data_digest = epoch_digest();
  ended.timing = timer_.end_epoch(rows_in_epoch_);
  add_probes(ended.timing);
  ++epochs_done_;
  if (session_.communicator.place().rank == 0) reporter_.emit(ended);
  if (!diverged_reason_.empty()) throw_rose(diverged_reason_);
  if (at_step_limit()) stop_reason_ = "max_steps";
  if (stop_ == Stop::time) stop_reason_ = "max_time";
  if (!early_reason_.empty()) {
    stop_reason_ = "early_stopping";
    if (session_.communicator.place().rank == 0)
      reporter_.emit(events::StoppedEarly{position_.epoch, early_reason_});
  }
  return stop_ != Stop::signal;
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
  ended.improved = keeper_.observe(position_, find(metrics, options_.monitor), decision);
}

void Trainer::emit_tables(std::vector<events::TableRow> rows) const {
  if (session_.communicator.place().rank != 0) return;
  for (events::TableRow& row : rows) {
    row.epoch = position_.epoch;
    session_.emit(row);
  }
}

void Trainer::add_probes(events::Timing& timing) {
  const double wall = std::max(timing.wall_s, 1e-9);
  timing.cpu_percent = 100 * (device::cpu_seconds() - cpu_before_) / wall;
  timing.rss_mb = device::peak_rss_mb();
  timing.gpu_mem_mb = device::cuda_peak_memory_mb(options_.device);
  timing.read_mb_s = static_cast<double>(device::storage_bytes_read() - read_before_) / 1e6 / wall;
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

events::Finished Trainer::finish() {
  phase_ = events::Phase::shutdown;
  reporter_.step(phase_, position_, session_.clock.now(), nullptr);
  check_skipped();  // a signal may come between two log points
  share_buffers(session_);
  check_weights();
  finish_profile();
  tell_skipped();
  if (averager_) {
    averager_->swap();  // for good: what is kept is the average
    share_buffers(session_);
  }
  keeper_.save_new_best();
  if (stop_ != Stop::signal) keeper_.restore_best();
  keeper_.save_last(position_);
  if (stop_ == Stop::signal) stop_reason_ = "signal";
  events::Finished finished;
  finished.epochs = epochs_done_;
  finished.global_step = position_.global_step;
  finished.data_digest = run_digest_.hex();
  finished.parameter_digest = digest_weights(weights_of(session_.model));
  finished.stop_reason = stop_reason_.empty() ? "max_epochs" : stop_reason_;
  return finished;
}

void Trainer::rescue(ErrorKind cause) noexcept {
  const bool lost = cause == ErrorKind::rank_failed || cause == ErrorKind::hang;
  if (lost && !options_.device.is_cpu()) return;  // an exchange that never ends may hold the device
  try {
    step_.drop_graph();  // its memory would count as taken
    keeper_.save_new_best();
    const bool trained = position_.global_step > 0 && cause != ErrorKind::diverged;
    if (trained && not_finite(weights_of(session_.model)).empty()) keeper_.save_last(position_);
  } catch (...) {  // the failure that ends the run is told, this one is its echo
  }
}

}  // namespace trainctl::train
