#pragma once

#include "train/loop/loop_state.hpp"
#include "train/loop/session.hpp"
#include "train/measure/phase_timer.hpp"

#include <exception>
#include <optional>

namespace trainctl::train {

/// What the loop does at the moment: for the timer, for NVTX ranges, for the supervisor (which
/// limits the time of a phase) and for the report of a failure.
class Phases {
 public:
  /// `state` outlives it: its step is stamped.
  Phases(const Session& session, const Options& options, const LoopState& state)
      : session_(session),
        state_(state),
        timer_(session.clock, device::make_event_line(options.device, static_cast<int>(kParts))) {
    if (!options.profiler || !options.profiler->nvtx) return;
    if (PartRanges::available()) {
      timer_.show_as(&ranges_.emplace());
    } else if (session.communicator.place().rank == 0) {
      session.emit(events::Warning{
          "profiler.nvtx: this libtorch has no CUDA half, and so no NVTX ranges", {}});
    }
  }

  [[nodiscard]] PartTimer& timer() { return timer_; }
  [[nodiscard]] events::Timing so_far() const { return timer_.so_far(); }
  /// The clock as read at the last switch.
  [[nodiscard]] double now() const { return timer_.last_reading(); }
  [[nodiscard]] events::Phase current() const { return current_; }
  /// Before the first batch of an optimizer step.
  void begin_step() {
    if (ranges_) ranges_->begin_step();
  }
  /// Switches within a step. It restores nothing, unlike PhaseScope: that would cost another
  /// reading of the clock, and on a GPU another event.
  void switch_to(Part part) { timer_.enter(part); }
  void enter(events::Phase phase) {
    current_ = phase;
    stamp(phase);
  }
  /// Reports the phase to the supervisor alone, for example while the first batch is awaited.
  void stamp(events::Phase phase) const {
    if (session_.heartbeat != nullptr)
      session_.heartbeat->stamp(phase, state_.position.global_step);
  }

 private:
  const Session& session_;
  const LoopState& state_;
  PartTimer timer_;
  std::optional<PartRanges> ranges_;  // with profiler.nvtx
  events::Phase current_ = events::Phase::startup;
};

/// Sets the phase for the lifetime of the object, then restores the previous one. An exception that
/// passes leaves the phase, since the report of the failure names it.
class PhaseScope {
 public:
  /// Without `phase` only timer and NVTX ranges follow.
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
    } catch (...) {  // an error of the GPU, which the next call to it reports again
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
