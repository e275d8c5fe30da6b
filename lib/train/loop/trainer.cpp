#include "train/loop/trainer.hpp"

#include "base/machine/machine.hpp"
#include "device/process_stats.hpp"
#include "dist/communicator.hpp"
#include "spec/experiment/run_size.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace trainctl::train {
namespace {

/// The ranks of local SGD meet where they share their weights, and not in between.
Agreement::Cadence cadence_for(const Options& options) {
  const bool by_time = options.device.is_cpu() && options.strategy != spec::Strategy::local_sgd;
  return by_time ? Agreement::Cadence::by_time : Agreement::Cadence::meeting_points;
}

/// Of the optimizer.
std::int64_t steps_per_epoch(const Session& session, const Options& options) {
  return (session.train.batches_per_epoch() + options.accumulate - 1) / options.accumulate;
}

StopSources stop_sources(const Session& session, const Options& options, double begun) {
  StopSources sources{session.stop_signal, {}};
  if (options.max_time_s) sources.deadline = begun + *options.max_time_s;
  return sources;
}

/// Before the first tensor is sent: a rank that expects another one would wait for ever.
void verify_model(const Session& session) {
  if (session.communicator.place().world_size == 1) return;
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : session.model.parameters())
    lines.push_back(dist::description_of(name, tensor));
  for (const auto& [name, tensor] : session.model.buffers())
    lines.push_back(dist::description_of("buffer " + name, tensor));
  dist::verify_alike(session.communicator, lines, "parameters and buffers");
}

bool has_native_bf16() {
  const std::vector<std::string> features = read_machine().cpu_features;
  return std::ranges::any_of(features, [](const std::string& feature) {
    return feature == "avx512_bf16" || feature == "amx_bf16";
  });
}

std::unique_ptr<Saver> make_saver(const Session& session, const Options& options) {
  return options.saving ? std::make_unique<Saver>(session, options) : nullptr;
}

}  // namespace

std::unique_ptr<dist::GradSync> synchronise(const Session& session, const Options& options) {
  verify_model(session);
  share_buffers(session);
  dist::BucketOptions buckets = session.buckets;
  if (records_steps(session, options)) buckets.bucketing = dist::Bucketing::own;
  buckets.exchanges = options.strategy != spec::Strategy::local_sgd;
  buckets.names.clear();
  for (const auto& [name, tensor] : session.model.parameters()) {
    if (tensor.requires_grad()) buckets.names.push_back(name);
  }
  return session.communicator.sync_gradients(trainable(session.model), buckets);
}

Trainer::Trainer(const Session& session, Options options)
    : session_(session),
      options_(std::move(options)),
      begun_(session.clock.now()),
      timer_(session.clock, device::make_event_line(options_.device, static_cast<int>(kParts))),
      saver_(make_saver(session, options_)),
      sync_(synchronise(session, options_)),
      feed_(make_feed(evaluation_of(session, session.train, "train"), options_)),
      step_(session, options_, timer_, *sync_),
      dump_(std::make_unique<NumericsDump>(session, options_)),
      keeper_(session, options_),
      reporter_(session, options_.device),
      agreement_(session.communicator, stop_sources(session, options_, begun_),
                 cadence_for(options_)),
      usage_(session.cores, make_gpu_meter(device::cuda_pci_bus(options_.device))) {
  ENSURE(config, !session.scheduler.cycles_momentum() || session.optimizer.has_momentum(),
         "the scheduler cycles a momentum that the optimizer does not have");
  if (session.validation != nullptr)
    evaluator_.emplace(evaluation_of(session, *session.validation, "val"), options_);
  if (options_.profiler && session.communicator.place().rank == 0)
    profiler_.emplace(*options_.profiler, options_.device, session);
  if (options_.profiler && options_.profiler->nvtx) show_parts();
  if (options_.averaging)
    averager_.emplace(session.model, *options_.averaging, steps_per_epoch(session, options_));
  if (options_.strategy == spec::Strategy::local_sgd)
    local_sgd_.emplace(session.model, session.communicator,
                       LocalSgd::Options{options_.sync_every, session.buckets.cap_bytes});
}

events::Finished Trainer::run() {
  session_.model.set_mode(stage::RunMode::train);
  if (!resumed_) sanity_check();
  begin_saving();
  timer_.begin_epoch();
  heed_spent_time();
  bool goes_on = !epoch_done_ || next_epoch();
  while (goes_on) goes_on = train_epoch() && finish_epoch() && next_epoch();
  if (saver_) save_end();
  return finish();
}

/// The starts of a run share trainer.max_time: there may be none left. A signal waits for a step.
void Trainer::heed_spent_time() {
  if (!resumed_ || !options_.max_time_s) return;
  if (agreement_.settle(session_.clock.now()) == Stop::time) stop_ = Stop::time;
  if (stop_ == Stop::time && epoch_done_ && has_next_epoch()) stop_reason_ = "max_time";
}

bool Trainer::next_epoch() {
  if (!has_next_epoch()) return false;
  ++position_.epoch;
  return true;
}

void Trainer::sanity_check() {
  if (evaluator_ && options_.sanity_steps > 0) {
    timer_.begin_epoch();
    validate(options_.sanity_steps);
  }
}

bool Trainer::has_next_epoch() const {
  const auto lies_before = [&](const std::optional<std::int64_t>& end) {
    return !end || position_.epoch + 1 < *end;
  };
  return stop_reason_.empty() && lies_before(options_.max_epochs) &&
         lies_before(options_.until_epoch);
}

bool Trainer::at_step_limit() const {
  return options_.max_steps && position_.global_step >= *options_.max_steps;
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
  // Who asked for the end wants the code that tells whether the run can go on.
  const auto on_failure = stop_ == Stop::signal ? Keeper::OnFailure::warn : Keeper::OnFailure::end;
  keeper_.save_new_best(on_failure);
  if (stop_ != Stop::signal) keeper_.restore_best();
  keeper_.save_last(position_, on_failure);
  if (stop_ == Stop::signal) stop_reason_ = "signal";
  events::Finished finished;
  finished.epochs = epochs_done_;
  finished.global_step = position_.global_step;
  finished.data_digest = run_digest_.hex();
  finished.parameter_digest = digest_weights(weights_of(session_.model));
  const bool is_part = options_.until_epoch &&
                       (!options_.max_epochs || *options_.until_epoch < *options_.max_epochs);
  const char* at_the_end = is_part ? "until_epoch" : "max_epochs";
  finished.stop_reason = stop_reason_.empty() ? at_the_end : stop_reason_;
  replay_last_batch(finished);
  return finished;
}

/// On a GPU the loader takes nothing from the device, and ranks would have to do it together: there
/// the steps' own times tell. The steps are replayed without the checks of detect_anomaly.
void Trainer::replay_last_batch(events::Finished& finished) {
  const bool alone = session_.communicator.place().world_size == 1;
  const bool plain = options_.device.is_cpu() && !step_.records();
  if (stop_ == Stop::signal || !alone || !plain || last_batch_ == nullptr) return;
  const std::int64_t steps = replay_cost_.steps();
  if (steps == 0) return;
  step_.stop_watching();
  const auto replayed = replay_batch(session_, {.batch = *last_batch_,
                                                .forward = options_.forward,
                                                .steps = steps,
                                                .setting_budget_s = replay_cost_.setting_budget_s(),
                                                .has_bf16 = has_native_bf16()});
  if (!replayed) return;
  finished.replay_step_s = replayed->step_s;
  finished.replay_steps = replayed->steps;
  if (const auto& larger = replayed->larger_batch) {
    finished.larger_batch = larger->value;
    finished.larger_batch_step_s = larger->step_s;
  }
  if (const auto& threads = replayed->other_threads) {
    finished.other_threads = threads->value;
    finished.other_threads_step_s = threads->step_s;
  }
  if (replayed->precision) finished.bf16_step_s = replayed->precision->step_s;
}

void Trainer::rescue(ErrorKind cause) noexcept {
  const bool lost = cause == ErrorKind::rank_failed || cause == ErrorKind::hang;
  if (lost && !options_.device.is_cpu()) return;  // an exchange that never ends may hold the device
  try {
    step_.drop_graph();  // its memory would count as taken
    keeper_.save_new_best(Keeper::OnFailure::warn);
    const bool trained = position_.global_step > 0 && cause != ErrorKind::diverged;
    if (trained && not_finite(weights_of(session_.model)).empty())
      keeper_.save_last(position_, Keeper::OnFailure::warn);
  } catch (...) {  // the failure that ends the run is told, this one is its echo
  }
}

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
  beat(phase_);  // the supervisor names the step of the last beat, which may be the one before
  std::string seen;
  if (steps_ago > 0)
    seen = fmt::format(", seen after step {}; the weights {}", position_.global_step,
                       step_.keeps_weights() ? "are those before it" : "have taken it in since");
  const std::string found = step_.anomaly();
  const std::string first =
      found.empty() ? "" : fmt::format("; the first value that is not finite: {}", found);
  const double scale = step_.scaler() != nullptr ? step_.scaler()->current_scale() : 1;
  const std::string dump =
      dump_->write({what, position_, steps_ago, scale, steps_ago == 0 || step_.keeps_weights()});
  const char* cure = options_.detect_anomaly
                         ? "lower optimizer.lr or set trainer.gradient_clip_val"
                         : "lower optimizer.lr, set trainer.gradient_clip_val, or find the layer "
                           "with trainer.detect_anomaly=true";
  throw Error(ErrorKind::diverged, fmt::format("{} at step {} of epoch {}{}{}: {}{}", what,
                                               position_.global_step - steps_ago,
                                               position_.epoch + 1, seen, first, cure, dump));
}

void Trainer::throw_rose(const std::string& what) const {
  beat(phase_);
  throw Error(ErrorKind::diverged,
              fmt::format("{} at step {} of epoch {}: lower optimizer.lr or set "
                          "trainer.gradient_clip_val",
                          what, position_.global_step, position_.epoch + 1));
}

}  // namespace trainctl::train
