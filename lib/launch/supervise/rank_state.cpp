#include "launch/supervise/rank_state.hpp"

#include "events/codec.hpp"

#include <atomic>
#include <utility>
#include <variant>

namespace trainctl::launch {
namespace {

// For so long without a stamp, in seconds, nobody asks whether a process is stopped.
constexpr double kLooksStopped = 1;

}  // namespace

RankState::RankState(int rank, const events::Heartbeat& page, std::optional<double> hang_timeout_s)
    : stamps_(page), pulse_(hang_timeout_s) {
  end_.rank = rank;
}

void RankState::take_event(const events::Event& event, int round) {
  if (std::holds_alternative<events::Hello>(event)) said_hello_ = true;
  if (std::holds_alternative<events::Finished>(event)) end_.finished = true;
  if (const auto* progress = std::get_if<events::Progress>(&event)) {
    told_step_ = progress->global_step;
    told_phase_ = progress->phase;
  }
  const auto* failed = std::get_if<events::Failed>(&event);
  if (failed == nullptr || is_stop_code(failed->kind)) return;
  told_step_ = failed->global_step;
  told_phase_ = failed->phase;
  is_leaving_ = true;
  if (!end_.report) end_.seen_in_round = round;
  if (!end_.report) end_.report = Report{failed->kind, failed->message};
}

void RankState::bury(int round) {
  alive_ = false;
  if (end_.seen_in_round == 0) end_.seen_in_round = round;
}

void RankState::keep_place() {
  end_ = end();
  keeps_place_ = true;
}

void RankState::blame(Report report, int round) {
  is_blamed_ = true;
  if (end_.report) return;
  end_.report = std::move(report);
  end_.seen_in_round = round;
}

std::optional<Silence> RankState::silence(double now) const {
  auto silence = alive_ && !end_.finished ? pulse_.silence(now) : std::nullopt;
  if (silence) silence->collective = stamps_.collective();
  return silence;
}

std::optional<Silence> RankState::stopped(double now) const {
  const bool watched = alive_ && !end_.finished && pulse_.seen_at() > 0;
  if (!watched || pulse_.silent_s(now) < kLooksStopped || !is_stopped()) return {};
  Silence silence = standstill(now);
  silence.limit_s = pulse_.step_limit_s();
  silence.stopped = true;
  return silence;
}

Silence RankState::standstill(double now) const {
  return {pulse_.silent_s(now), pulse_.limit_s().value_or(0), pulse_.phase(), stamps_.collective()};
}

RankEnd RankState::end() const {
  RankEnd end = end_;
  end.started = was_started_;
  if (keeps_place_) return end;
  const bool stamped = stamps_.monotonic_ns.load(std::memory_order_acquire) != 0;
  end.step = stamped ? stamps_.global_step.load(std::memory_order_relaxed) : told_step_;
  const auto phase = static_cast<events::Phase>(stamps_.phase.load(std::memory_order_relaxed));
  end.phase = events::phase_name(stamped ? phase : told_phase_);
  end.collective = stamps_.collective().name;
  return end;
}

}  // namespace trainctl::launch
