#pragma once

#include "base/clock.hpp"
#include "base/state_archive.hpp"
#include "device/device.hpp"
#include "events/records.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::train {

/// A phase of events::kTimingPhases, in the same order.
enum class Part {
#define TIMING_PHASE(phase, ...) phase,
#include "events/timing_fields.def"
#undef TIMING_PHASE
};
inline constexpr std::size_t kParts = events::kTimingPhases.size();

class PartRanges;

/// Measures how an epoch's time divides into parts. Exactly one part runs at any time, so the parts
/// sum to the wall time; each change reads the clock once. On a GPU the parts of a step come from
/// CUDA events, which are read when the device has finished the step, and the device's idle time
/// counts as waiting for data or other.
class PartTimer {
 public:
  /// `line` is null on a CPU.
  PartTimer(const Clock& clock, std::unique_ptr<device::EventTimer> line);

  /// Makes NVTX ranges follow the parts from now on; null stops it.
  void show_as(PartRanges* ranges) { ranges_ = ranges; }

  void begin_epoch();
  /// Ends the running part and begins `part`.
  void enter(Part part);
  /// Moves seconds from one part to another, always the same two; on a GPU these are device times,
  /// which are moved when they are known.
  void move(Part from, Part to, double seconds);
  /// Call it when all work of a step has been launched.
  void end_step();
  /// Stops the timer while it lives: a step that is only captured takes no time.
  class Pause {
   public:
    explicit Pause(PartTimer& timer) : timer_(timer) { timer_.paused_ = true; }
    ~Pause() { timer_.paused_ = false; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    PartTimer& timer_;
  };
  /// Ends the epoch. Returns all times; the caller adds the process's resource usage.
  events::Timing end_epoch(std::int64_t samples);
  /// Returns the times of the epoch up to the last change of part.
  [[nodiscard]] events::Timing so_far() const;

  [[nodiscard]] Part current() const { return current_; }
  /// Returns the clock's value at the last change of part, for callers that need no precise time.
  [[nodiscard]] double last_reading() const { return last_; }

 private:
  using Seconds = std::array<double, kParts>;
  void add_device_times(const std::vector<double>& seconds);
  [[nodiscard]] Seconds with_device_times(double wall) const;

  const Clock& clock_;
  std::unique_ptr<device::EventTimer> line_;
  PartRanges* ranges_ = nullptr;
  Part current_ = Part::other;
  bool paused_ = false;
  double begun_ = 0;
  double last_ = 0;
  double first_batch_ = -1;
  double not_moved_ = 0;  // seconds that move() has yet to move
  Seconds host_{};
  Seconds device_{};
};

/// Serializes the seconds that events::add_times() adds. A phase that an older checkpoint lacks
/// keeps its seconds.
void serialize_times(events::Timing& timing, StateArchive& archive);

/// NVTX ranges of the training loop's thread for the time line of Nsight Systems, with the names in
/// timing_fields.def: "step" contains the phases of a step; "evaluation" and "checkpoint" are
/// outside of steps. A build without CUDA has none.
class PartRanges {
 public:
  PartRanges() = default;
  ~PartRanges();
  PartRanges(const PartRanges&) = delete;
  PartRanges& operator=(const PartRanges&) = delete;

  /// Returns whether this libtorch supports NVTX ranges.
  static bool available();

  /// Call it before the first batch of an optimizer step.
  void begin_step();
  void enter(Part part);

 private:
  void end_part();
  void end_step();

  bool in_step_ = false;
  bool in_part_ = false;
};

}  // namespace trainctl::train
