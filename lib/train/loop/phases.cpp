#include "train/loop/phases.hpp"

#include <exception>

namespace trainctl::train {

Phases::Phases(const Session& session, const Options& options, const LoopState& state)
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

PhaseScope::PhaseScope(Phases& phases, Part part, std::optional<events::Phase> phase)
    : phases_(phases),
      part_before_(phases.timer().current()),
      exceptions_(std::uncaught_exceptions()) {
  phases_.switch_to(part);
  if (!phase) return;
  phase_before_ = phases_.current();
  phases_.enter(*phase);
}

PhaseScope::~PhaseScope() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    phases_.switch_to(part_before_);
    if (phase_before_) phases_.enter(*phase_before_);
  } catch (...) {  // an error of the GPU, which the next call to it reports again
  }
}

}  // namespace trainctl::train
