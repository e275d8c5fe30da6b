#pragma once

#include "train/measure/phase_timer.hpp"

namespace trainctl::train {

/// NVTX ranges of a run, which Nsight Systems shows on the time line of the training loop's thread:
/// "step", and within it "data_wait", "h2d", "forward", "backward", "allreduce", "optimizer";
/// "evaluation" and "checkpoint" stand outside of steps. Without such a tool they cost next to
/// nothing. They are libtorch's own, so that a build without CUDA has none.
class PartRanges {
 public:
  PartRanges() = default;
  /// Ends what is open.
  ~PartRanges();
  PartRanges(const PartRanges&) = delete;
  PartRanges& operator=(const PartRanges&) = delete;

  /// Whether this libtorch has them.
  static bool available();

  /// Before the first batch of an optimizer step.
  void begin_step();
  /// Ends the part before.
  void enter(Part part);

 private:
  void end_part();
  void end_step();

  bool in_step_ = false;
  bool in_part_ = false;
};

}  // namespace trainctl::train
