#pragma once

#include "base/clock.hpp"
#include "base/state_archive.hpp"
#include "device/device.hpp"
#include "events/records.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace trainctl::train {

/// A phase of events::kTimingPhases, which has the same order.
enum class Part {
#define TIMING_PHASE(phase, ...) phase,
#include "events/timing_fields.def"
#undef TIMING_PHASE
};
inline constexpr std::size_t kParts = events::kTimingPhases.size();

class PartRanges;

/// Where an epoch's time goes. Exactly one part runs at any time, so the parts sum to the wall time
/// by construction: one clock reading at each change. On a GPU the parts of a step come from events
/// that are read one step late, and what the device did not use is waiting for data or other.
class PartTimer {
 public:
  /// `line` is null on a CPU.
  PartTimer(const Clock& clock, std::unique_ptr<device::EventLine> line);

  /// From now on they follow the parts. Null: none do.
  void show_as(PartRanges* ranges) { ranges_ = ranges; }

  void begin_epoch();
  /// Ends the running part and begins `part`.
  void enter(Part part);
  /// Some of the time booked on `from` belonged to `to`: on a GPU of the device's, which is known
  /// late.
  void move(Part from, Part to, double seconds);
  /// All work of a step is launched.
  void end_step();
  /// Nothing is booked while it lives: a step that is only recorded takes no time of its own.
  class Pause {
   public:
    explicit Pause(PartTimer& timer) : timer_(timer) { timer_.paused_ = true; }
    ~Pause() { timer_.paused_ = false; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    PartTimer& timer_;
  };
  /// Closes the epoch. Fills everything but the probes of the process.
  events::Timing end_epoch(std::int64_t samples);
  /// Where the time of the epoch went until the last change.
  [[nodiscard]] events::Timing so_far() const;

  [[nodiscard]] Part current() const { return current_; }
  /// The clock as read at the last change: for whoever needs a time of no great precision.
  [[nodiscard]] double last_reading() const { return last_; }

 private:
  using Seconds = std::array<double, kParts>;
  void add_late_step();
  [[nodiscard]] Seconds with_device_times(double wall) const;

  const Clock& clock_;
  std::unique_ptr<device::EventLine> line_;
  PartRanges* ranges_ = nullptr;
  Part current_ = Part::other;
  bool paused_ = false;
  double begun_ = 0;
  double last_ = 0;
  double first_batch_ = -1;
  Seconds host_{};
  Seconds device_{};
};

/// The seconds that events::add_times() adds. A phase that is newer than the checkpoint keeps its
/// seconds.
void serialize_times(events::Timing& timing, StateArchive& archive);

/// NVTX ranges of a run, which Nsight Systems shows on the time line of the training loop's thread:
/// "step", and within it "data_wait", "h2d", "forward", "backward", "allreduce", "optimizer";
/// "evaluation" and "checkpoint" stand outside of steps. A build without CUDA has none.
class PartRanges {
 public:
  PartRanges() = default;
  ~PartRanges();
  PartRanges(const PartRanges&) = delete;
  PartRanges& operator=(const PartRanges&) = delete;

  /// Whether this libtorch has them.
  static bool available();

  /// Before the first batch of an optimizer step.
  void begin_step();
  void enter(Part part);

 private:
  void end_part();
  void end_step();

  bool in_step_ = false;
  bool in_part_ = false;
};

}  // namespace trainctl::train
