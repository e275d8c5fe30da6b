#include "train/parallel/stop_consensus.hpp"

#include "spec/experiment/experiment.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace trainctl::train {

StopConsensus::StopConsensus(dist::Communicator& communicator, StopSources sources, Cadence cadence)
    : communicator_(communicator),
      sources_(sources),
      cadence_(cadence),
      alone_(communicator.rank_info().world_size == 1),
      requests_(at::zeros({5}, at::kInt)) {}

Stop StopConsensus::own(double now) const {
  if (sources_.signal != nullptr && *sources_.signal != 0) return Stop::signal;
  return sources_.deadline && now >= *sources_.deadline ? Stop::time : Stop::none;
}

Stop StopConsensus::read() {
  std::exchange(pending_, nullptr)();
  const auto* requests = requests_.const_data_ptr<std::int32_t>();
  save_agreed_ = requests[2] > 0;
  steps_left_ = requests[3];
  agreed_saves_ = requests[4];
  if (requests[0] > 0) return Stop::signal;
  return requests[1] > 0 ? Stop::time : Stop::none;
}

void StopConsensus::begin_phase() {
  begins_ = true;
  steps_between_ = 1;
  started_at_.reset();
  stepped_at_.reset();
  last_step_s_ = 0;
}

/// Chooses the interval from the duration of the steps since the last exchange, and at most doubles
/// it: the first steps may have been fast by chance.
std::int32_t StopConsensus::steps_until_next(double now) {
  constexpr double kFarLonger = 10;
  const double elapsed = started_at_ ? now - *started_at_ : 0;
  const double others_s = (elapsed - last_step_s_) / std::max(steps_since_start_ - 1, 1);
  // The last step was another kind of work than the steps since the last exchange.
  const bool has_slowed = steps_since_start_ >= 2 && last_step_s_ > kFarLonger * others_s;
  if (has_slowed) {
    steps_between_ = 1;
  } else if (steps_since_start_ > 0 && elapsed > 0) {
    const double most = std::min(kMostSteps, 2 * steps_between_);
    const double fitting = kEvery_s * steps_since_start_ / elapsed;
    steps_between_ = static_cast<std::int32_t>(std::clamp(fitting, 1.0, most));
  }
  started_at_ = now;
  steps_since_start_ = 0;
  return steps_between_;
}

void StopConsensus::start(double now) {
  const Stop request = own(now);
  const bool decides = communicator_.rank_info().rank == 0;
  auto* requests = requests_.mutable_data_ptr<std::int32_t>();
  requests[0] = request == Stop::signal ? 1 : 0;
  requests[1] = request == Stop::time ? 1 : 0;
  // A save that was just agreed on is still pending, and is not a new request.
  requests[2] = decides && save_is_due_ && !save_agreed_ ? 1 : 0;
  requests[3] = decides ? steps_until_next(now) : 0;
  requests[4] = decides ? ended_saves_ : 0;
  pending_ = communicator_.start_sum(requests_, "consensus on stopping");
}

Stop StopConsensus::after_step(At at, double now) {
  save_agreed_ = alone_ && save_is_due_;
  if (alone_) return own(now);
  if (cadence_ == Cadence::sync_points) return at == At::sync_point ? meet(now) : Stop::none;
  ++steps_since_start_;
  last_step_s_ = now - stepped_at_.value_or(now);
  stepped_at_ = now;
  const Stop agreed = pending_ ? read() : Stop::none;
  if (agreed != Stop::none) {
    begins_ = true;  // a caller that continues anyway, such as a validation, exchanges again after
                     // the next step
    return agreed;
  }
  if (std::exchange(begins_, false) || --steps_left_ <= 0) start(now);
  return Stop::none;
}

/// Reads what the ranks requested at the previous synchronization point, which is done by now, and
/// starts the next exchange.
Stop StopConsensus::meet(double now) {
  const Stop agreed = pending_ ? read() : Stop::none;
  if (agreed == Stop::none) start(now);
  return agreed;
}

Stop StopConsensus::settle(double now) {
  if (alone_) return own(now);
  const Stop agreed = meet(now);
  return agreed != Stop::none ? agreed : read();
}

/// The ranks of local SGD exchange requests only when they average their weights.
StopObserver::StopObserver(const Session& session, const Options& options, Phases& phases)
    : session_(session),
      options_(options),
      phases_(phases),
      alone_(session.communicator.rank_info().world_size == 1),
      consensus_(session.communicator, {session.stop_signal},
                 options.device.is_cpu() && options.strategy != spec::Strategy::local_sgd
                     ? StopConsensus::Cadence::by_time
                     : StopConsensus::Cadence::sync_points) {}

/// All processes of a run share trainer.max_time, so a resumed run may have none left. A signal
/// takes effect after a step.
void StopObserver::on_run_begin(LoopState& state) {
  if (!options_.max_time_s) return;
  consensus_.set_deadline(state.begun + *options_.max_time_s);
  if (!state.resumed || consensus_.settle(session_.clock.now()) != Stop::time) return;
  state.stop = Stop::time;
  if (state.epoch_done && has_next_epoch(options_, state)) state.stop_reason = "max_time";
}

void StopObserver::on_step_end(LoopState& state) {
  const double now = phases_.now();
  if (!alone_) phases_.switch_to(Part::allreduce);
  if (options_.saving && options_.saving->every_s)
    consensus_.request_save(now - state.saved_at >= *options_.saving->every_s);
  consensus_.report_saves(state.ended_saves);
  const std::int64_t step = state.position.global_step;
  const bool meets = options_.strategy == spec::Strategy::local_sgd
                         ? state.ranks_alike
                         : step % spec::agreement_every(options_.log_every) == 0;
  state.stop =
      consensus_.after_step(meets ? StopConsensus::At::sync_point : StopConsensus::At::step, now);
  state.save_agreed = consensus_.save_agreed();
  state.agreed_saves = consensus_.ended_saves();
}

/// trainer.max_time takes effect only after the validation.
void StopObserver::on_validation_batch_end(LoopState& state) {
  const bool meets =
      state.validation.step_in_epoch % spec::agreement_every(options_.log_every) == 0;
  const auto at = meets ? StopConsensus::At::sync_point : StopConsensus::At::step;
  if (consensus_.after_step(at, session_.clock.now()) == Stop::signal) state.stop = Stop::signal;
}

void StopObserver::on_epoch_end(LoopState& state) {
  if (state.stop == Stop::none) state.stop = consensus_.settle(phases_.now());
}

}  // namespace trainctl::train
