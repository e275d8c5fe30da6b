#pragma once

#include "train/loop/loop_state.hpp"
#include "train/loop/session.hpp"
#include "train/measure/phase_timer.hpp"

#include <exception>
#include <optional>

namespace trainctl::train {

/// Tracks what the loop is doing: for the timer, for NVTX ranges, for the supervisor, which limits
/// the time of a phase, and for error reports.
class Phases {
 public:
  /// `state` must outlive it: its step is written to the heartbeat.
  Phases(const Session& session, const Options& options, const LoopState& state)
      : session_(session),
        state_(state),
        timer_(session.clock, device::make_event_timer(options.device, static_cast<int>(kParts))) {
    if (!options.profiler || !options.profiler->nvtx) return;
    if (PartRanges::available()) {
      timer_.show_as(&ranges_.emplace());
    } else if (session.communicator.rank_info().rank == 0) {
      session.emit(events::Warning{
          "profiler.nvtx: this libtorch has no CUDA support, so there are no NVTX ranges", {}});
    }
  }

  [[nodiscard]] PartTimer& timer() { return timer_; }
  [[nodiscard]] events::Timing so_far() const { return timer_.so_far(); }
  /// Returns the clock's value at the last switch.
  [[nodiscard]] double now() const { return timer_.last_reading(); }
  [[nodiscard]] events::Phase current() const { return current_; }
  /// Called before the first batch of an optimizer step.
  void begin_step() {
    if (ranges_) ranges_->begin_step();
  }
  /// Switches the part within a step. Unlike PhaseScope it restores nothing, which would cost
  /// another clock reading, and on a GPU another event.
  void switch_to(Part part) { timer_.enter(part); }
  void enter(events::Phase phase) {
    current_ = phase;
    stamp(phase);
  }
  /// Reports the phase to the supervisor only, for example while the loop waits for the first
  /// batch.
  void stamp(events::Phase phase) const {
    if (session_.heartbeat != nullptr)
      session_.heartbeat->stamp(phase, state_.position.global_step);
  }

 private:
  const Session& session_;
  const LoopState& state_;
  PartTimer timer_;
  std::optional<PartRanges> ranges_;  // set if profiler.nvtx is on
  events::Phase current_ = events::Phase::startup;
};

/// Sets the phase for the lifetime of the object, then restores the previous one. If an exception
/// passes, the phase stays, because the error report names it.
class PhaseScope {
 public:
  /// Without `phase`, only the timer and NVTX ranges change.
  PhaseScope(Phases& phases, Part part, std::optional<events::Phase> phase = std::nullopt)
      : phases_(phases),
        part_before_(phases.timer().current()),
        exceptions_(std::uncaught_exceptions()) {
    phases_.switch_to(part);
    if (!phase) return;
    phase_before_ = phases_.current();
    phases_.enter(*phase);
  }
  ~PhaseScope() {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      phases_.switch_to(part_before_);
      if (phase_before_) phases_.enter(*phase_before_);
    } catch (...) {  // a GPU error; the next CUDA call reports it again
    }
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phases& phases_;
  Part part_before_;
  std::optional<events::Phase> phase_before_;
  int exceptions_;
};

}  // namespace trainctl::train
