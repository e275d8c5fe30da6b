#include "train/loop/train_loop.hpp"

#include "base/machine/host_waits.hpp"
#include "train/loop/early_stopping.hpp"
#include "train/loop/progress_reporter.hpp"
#include "train/measure/profiler.hpp"
#include "train/measure/sample_grid.hpp"
#include "train/measure/step_benchmark.hpp"
#include "train/measure/tensor_statistics.hpp"
#include "train/measure/usage_meter.hpp"
#include "train/parallel/local_sgd.hpp"
#include "train/parallel/replicas.hpp"
#include "train/parallel/stop_consensus.hpp"
#include "train/state/unfreezing.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace trainctl::train {
namespace {

/// Backs up the sums of the metrics: a validation overwrites them, and it may be canceled.
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

/// Returns the digest of the epoch over all ranks; nullopt if some rank did not see the pixels on
/// the host. A rank whose device has less free memory may see pixels where another rank does not.
std::optional<std::uint64_t> digest_over_ranks(const Session& session, std::uint64_t digest) {
  const at::Tensor sums = at::empty({2}, at::kLong);
  auto* values = reinterpret_cast<std::uint64_t*>(sums.mutable_data_ptr<std::int64_t>());
  values[0] = digest;
  values[1] = session.train.held() ? 1 : 0;
  session.communicator.sum(sums, "sum of the data digests");
  return values[1] > 0 ? std::nullopt : std::optional(values[0]);
}

}  // namespace

TrainLoop::TrainLoop(const Session& session, Options options)
    : session_(session),
      options_(std::move(options)),
      state_{.begun = session.clock.now()},
      phases_(session, options_, state_),
      saver_(options_.saving ? std::make_unique<CheckpointSaver>(session, options_) : nullptr),
      sync_(synchronize(session, options_)),
      feed_(make_feed(evaluation_of(session, session.train, "train"), options_)),
      step_(session, options_, phases_.timer(), *sync_),
      training_(
          {session, options_, state_, phases_, step_, *sync_,
           session.validation != nullptr
               ? &evaluator_.emplace(evaluation_of(session, *session.validation, "val"), options_)
               : nullptr,
           observers_}) {
  ENSURE(config, !session.scheduler.cycles_momentum() || session.optimizer.has_momentum(),
         "the scheduler cycles the momentum, but the optimizer has none\nhint: set "
         "'cycle_momentum: false' in the scheduler, or choose another optimizer");
  make_observers();
}

template <class Kind, class... Arguments>
Kind& TrainLoop::add_observer(Arguments&&... arguments) {
  auto observer = std::make_unique<Kind>(std::forward<Arguments>(arguments)...);
  Kind& made = *observer;
  observers_.push_back(std::move(observer));
  return made;
}

/// The loop calls the observers in the order in which they are created here.
void TrainLoop::make_observers() {
  const std::int64_t steps =
      (session_.train.batches_per_epoch() + options_.accumulate - 1) / options_.accumulate;
  const dist::RankInfo place = session_.communicator.rank_info();
  if (!session_.unfreezing.empty()) add_observer<Unfreezing>(session_);
  if (options_.profiler && place.rank == 0)
    add_observer<ProfilerObserver>(session_, options_, phases_);
  if (options_.strategy == spec::Strategy::local_sgd)
    add_observer<LocalSgdObserver>(session_, options_, phases_, steps);
  if (options_.averaging) averaging_ = &add_observer<WeightAveraging>(session_, options_, steps);
  add_observer<UsageObserver>(session_, options_);
  guard_ = &add_observer<NumericsGuard>(session_, options_, phases_, step_);
  auto& reporter = add_observer<ProgressReporter>(session_, options_, phases_, step_, *sync_);
  if (place.rank == 0 && (options_.log_layer_norms || options_.weights_every > 0))
    add_observer<TensorStatistics>(session_, options_, step_);
  if (place.rank == 0)
    add_observer<SampleGrid>(session_, options_, evaluator_ ? &*evaluator_ : nullptr);
  EarlyStopping* stopping =
      session_.stopper != nullptr ? &add_observer<EarlyStopping>(session_) : nullptr;
  best_weights_ = &add_observer<BestWeights>(session_, options_, phases_);
  add_observer<StopObserver>(session_, options_, phases_);
  if (saver_) {
    const auto check = [guard = guard_, &reporter, stopping](LoopState& state) {
      reporter.settle(state);
      if (stopping != nullptr) stopping->observe_logged_loss(state);
      guard->check_reported(state);
      guard->check_skipped(state);
      guard->check_weights(state);
    };
    const auto emit_line = [&reporter](LoopState& state) { reporter.emit_line(state); };
    add_observer<Checkpointer>(Checkpointer::Parts{session_, options_, phases_, training_, *sync_,
                                                   *saver_, check, emit_line});
  }
  // More steps would train the task's own model, which the test of the weights needs.
  if (options_.device.is_cpu() && place.world_size == 1 && session_.task.trained() == nullptr)
    add_observer<StepBenchmark>(session_, options_, step_);
}

void TrainLoop::notify(Hook hook) {
  for (const auto& observer : observers_) {
    (observer.get()->*hook)(state_);
    guard_->check_reported(state_);
  }
}

events::Finished TrainLoop::run() {
  session_.model.set_mode(stage::RunMode::train);
  if (!state_.resumed && evaluator_ && options_.sanity_steps > 0) {
    phases_.timer().begin_epoch();
    validate(options_.sanity_steps);
  }
  notify(&Observer::on_run_begin);
  phases_.timer().begin_epoch();
  bool more = !state_.epoch_done || next_epoch();
  while (more) more = train_epoch() && finish_epoch() && next_epoch();
  notify(&Observer::on_train_end);
  if (!options_.device.is_cpu())
    state_.finished.host_waits = host_waits_since(session_.earlier_waits);
  return finish();
}

/// Returns false if no epoch follows.
bool TrainLoop::next_epoch() {
  if (!has_next_epoch(options_, state_)) return false;
  ++state_.position.epoch;
  return true;
}

/// Returns false if a signal ends the run before the end of the epoch.
bool TrainLoop::train_epoch() {
  phases_.enter(events::Phase::train);
  phases_.stamp(events::Phase::load);
  begin_epoch();
  const Position& at = state_.position;
  feed_->drain();
  if (validation_is_due()) validate_within_epoch();  // a signal came during this validation
  if (at.step_in_epoch < at.steps_in_epoch) session_.train.start_epoch(at.epoch, at.step_in_epoch);
  while (at.step_in_epoch < at.steps_in_epoch && state_.stop == Stop::none &&
         !at_step_limit(options_, state_) && !ends_early(state_))
    train_batch(at.step_in_epoch);
  return state_.stop != Stop::signal;
}

void TrainLoop::begin_epoch() {
  state_.position.steps_in_epoch = session_.train.batches_per_epoch();
  state_.decision = {};
  if (state_.resumed_in_epoch) {
    state_.samples_before = state_.samples;
  } else {
    state_.epoch_done = false;
    state_.monitored.reset();
    state_.digest = 0;
    state_.samples = state_.samples_before = 0;
    state_.position.step_in_epoch = 0;
    state_.earlier = {};
    step_.meter().reset();
    for (const auto& metric : session_.metrics) metric->reset();
  }
  notify(&Observer::on_epoch_begin);
  state_.resumed_in_epoch = false;
}

void TrainLoop::train_batch(std::int64_t index) {
  const bool opens = index % options_.accumulate == 0;
  if (opens) notify(&Observer::on_step_begin);
  if (opens) phases_.begin_step();
  phases_.switch_to(Part::data_wait);
  const data::Batch* batch = session_.train.next();
  ASSERT(batch != nullptr);
  // The supervisor measures the time of the first step from here.
  if (state_.batches == 0) phases_.stamp(events::Phase::startup);
  phases_.switch_to(Part::h2d);
  const device::DeviceBatch& on_device = feed_->put(*batch);
  state_.last_batch = &on_device;
  ++state_.batches;
  if (opens) begin_step(index);
  const bool closes =
      (index + 1) % options_.accumulate == 0 || index + 1 == state_.position.steps_in_epoch;
  const bool logs = (state_.position.global_step + 1) % options_.log_every == 0;
  guard_->before_batch(*batch, on_device, state_.lr);
  guard_->check(step_.run({on_device, step_rows_, opens, closes, logs, batch}), state_);
  state_.digest += batch->digest;
  state_.samples += batch->global_valid;
  ++state_.position.step_in_epoch;
  if (closes) {
    ++state_.position.global_step;
    notify(&Observer::on_step_end);
    if (validation_is_due()) validate_within_epoch();
    notify(&Observer::on_step_save);
  } else {
    phases_.stamp(events::Phase::train);
  }
}

void TrainLoop::begin_step(std::int64_t first_batch) {
  const Position& at = state_.position;
  const std::int64_t full = session_.batch_size * session_.communicator.rank_info().world_size;
  const std::int64_t end =
      std::min(first_batch + options_.accumulate, session_.train.batches_per_epoch());
  step_rows_ = std::min(end * full, session_.train.samples()) - first_batch * full;
  state_.lr = session_.scheduler.lr(at.epoch, at.global_step);
  step_.begin_step(state_.lr, session_.scheduler.momentum(at.epoch, at.global_step));
  session_.optimizer.set_position(at.epoch, at.global_step);
}

/// Computes metrics, validates, updates the best weights, checks early stopping and emits the
/// event. Returns false after a signal.
bool TrainLoop::finish_epoch() {
  const bool improved = is_validated(state_) && state_.report.improved;
  state_.report = {};
  state_.report.epoch = state_.position.epoch;
  state_.report.global_step = state_.position.global_step;
  state_.report.lr = state_.lr;
  notify(&Observer::on_train_epoch_end);
  if (!evaluate_epoch()) return false;
  state_.report.improved = state_.report.improved || improved;
  const auto digest = digest_over_ranks(session_, state_.digest);
  digest ? state_.run_digest.add(*digest) : state_.run_digest.miss();
  state_.report.data_digest = digest ? to_hex(*digest) : "";
  ++state_.epochs_done;
  state_.epoch_done = true;
  notify(&Observer::on_epoch_end);
  report_epoch();
  settle_stop_reason();
  return state_.stop != Stop::signal;
}

/// Returns false after a signal during the validation; a resumed run repeats the validation.
bool TrainLoop::evaluate_epoch() {
  const KeptSums sums(session_);
  const Evaluation training = evaluation_of(session_, session_.train, "train");
  events::Metrics& metrics = state_.report.metrics;
  state_.tables = collect_tables(training);
  metrics = collect_metrics(training, step_.meter());
  guard_->check_loss("training", metrics.front().second, state_);
  broadcast_buffers(session_);
  guard_->check_weights(state_);
  const AveragedWeights averaged(averaging_ != nullptr ? &averaging_->averager() : nullptr);
  if (averaging_ != nullptr) broadcast_buffers(session_);  // rank 0 saves what is evaluated here
  if (validates_epoch()) {
    const bool is_known = is_validated(state_) && !state_.validated.empty();
    const auto validation = is_known ? std::optional(state_.validated) : validate(std::nullopt);
    if (!validation) {
      sums.put_back();
      return false;
    }
    metrics.insert(metrics.end(), validation->begin(), validation->end());
    std::ranges::copy(evaluator_->tables(), std::back_inserter(state_.tables));
  }
  if (const auto value = events::find_metric(metrics, session_.scheduler.monitor()))
    session_.scheduler.observe(state_.position.epoch, *value);
  state_.monitored = events::find_metric(metrics, options_.monitor);
  notify(&Observer::on_validation_end);
  return true;
}

bool TrainLoop::validates_epoch() const {
  return evaluator_ && (state_.position.epoch + 1) % options_.validate_every == 0;
}

/// Returns whether the last step is followed by a validation within the epoch. The validation at
/// the end of the epoch is another one.
bool TrainLoop::validation_is_due() const {
  const Position& at = state_.position;
  const std::int64_t steps = (at.steps_in_epoch + options_.accumulate - 1) / options_.accumulate;
  const std::int64_t every = options_.validation_interval.of(steps);
  if (every >= steps || at.step_in_epoch == 0 || at.step_in_epoch >= at.steps_in_epoch)
    return false;
  return at.step_in_epoch % (every * options_.accumulate) == 0 && validates_epoch() &&
         !is_validated(state_) && state_.stop == Stop::none && !at_step_limit(options_, state_);
}

/// After a signal, the validation counts as not done, and a resumed run repeats it.
void TrainLoop::validate_within_epoch() {
  const KeptSums sums(session_);
  broadcast_buffers(session_);
  guard_->check_weights(state_);
  const AveragedWeights averaged(averaging_ != nullptr ? &averaging_->averager() : nullptr);
  if (averaging_ != nullptr) broadcast_buffers(session_);
  const auto metrics = validate(std::nullopt);
  sums.put_back();
  if (!metrics) return;
  state_.validated = *metrics;
  state_.validated_step = state_.position.global_step;
  state_.monitored = events::find_metric(*metrics, options_.monitor);
  notify(&Observer::on_interval_validation_end);
  if (session_.communicator.rank_info().rank == 0)
    session_.emit(events::Validated{.epoch = state_.position.epoch,
                                    .global_step = state_.validated_step,
                                    .metrics = *metrics,
                                    .improved = state_.report.improved});
}

/// Returns nullopt after a signal.
std::optional<events::Metrics> TrainLoop::validate(std::optional<std::int64_t> limit) {
  const PhaseScope scope(phases_, Part::eval, events::Phase::validate);
  phases_.stamp(events::Phase::load);
  state_.validation = state_.position;
  state_.validation.steps_in_epoch = limit.value_or(session_.validation->batches_per_epoch());
  notify(&Observer::on_validation_begin);
  auto metrics = evaluator_->run(limit, [&](std::int64_t batch) {
    state_.validation.step_in_epoch = batch + 1;
    notify(&Observer::on_validation_batch_end);
    return state_.stop != Stop::signal;
  });
  const bool is_sanity_check = limit.has_value();
  if (metrics && !is_sanity_check)
    guard_->check_loss("validation", metrics->front().second, state_);
  return metrics;
}

void TrainLoop::report_epoch() {
  state_.report.timing = phases_.timer().end_epoch(state_.samples - state_.samples_before);
  phases_.timer().begin_epoch();
  state_.exchanged = {};
  if (session_.communicator.rank_info().world_size > 1) {
    state_.exchanged = sync_->take_stats();
    state_.exchanged += step_.take_shared();
  }
  notify(&Observer::on_epoch_report);
}

void TrainLoop::settle_stop_reason() {
  if (at_step_limit(options_, state_)) state_.stop_reason = "max_steps";
  if (state_.stop == Stop::time) state_.stop_reason = "max_time";
  if (state_.early_reason.empty()) return;
  state_.stop_reason = "early_stopping";
  if (session_.communicator.rank_info().rank == 0)
    session_.emit(events::StoppedEarly{state_.position.epoch, state_.early_reason});
}

events::Finished TrainLoop::finish() {
  phases_.enter(events::Phase::shutdown);
  guard_->check_skipped(state_);  // a signal may come between two log points
  broadcast_buffers(session_);
  guard_->check_weights(state_);
  const bool is_part = options_.until_epoch &&
                       (!options_.max_epochs || *options_.until_epoch < *options_.max_epochs);
  if (state_.stop == Stop::signal) state_.stop_reason = "signal";
  if (state_.stop_reason.empty()) state_.stop_reason = is_part ? "until_epoch" : "max_epochs";
  events::Finished& finished = state_.finished;
  finished.epochs = state_.epochs_done;
  finished.global_step = state_.position.global_step;
  finished.data_digest = state_.run_digest.hex();
  finished.stop_reason = state_.stop_reason;
  notify(&Observer::on_run_end);  // adds the digest of the final weights
  return finished;
}

void TrainLoop::rescue(ErrorKind cause) noexcept {
  const bool lost = cause == ErrorKind::rank_failed || cause == ErrorKind::hang;
  if (lost && !options_.device.is_cpu()) {  // a pending collective may block the device
    session_.communicator.abort([graph = step_.release_graph()]() mutable { graph.reset(); });
    return;
  }
  drop_graph();
  for (const auto& observer : observers_) observer->on_failure(state_, cause);
  session_.communicator.abort();
}

void TrainLoop::drop_graph() noexcept {
  try {
    step_.drop_graph();
  } catch (...) {  // the first failure is reported, and this one only follows from it
  }
}

}  // namespace trainctl::train
