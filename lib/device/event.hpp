#pragma once

#include "device/device.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

// What the host does with events of a device. Nothing here calls CUDA, so that tests use fakes.

namespace trainctl::device {

/// Returns when the work before the event is done. Counts a host wait at `place` if it is not done
/// yet.
void await(Event& event, std::string_view place);

/// Returns whether the work before the event is done, for destructors. Waits for it first, unless
/// an exception passes: a collective with a lost rank may then block the device for good.
bool wait_in_destructor(Event& event) noexcept;

/// Creates the events of a class, all with the same options.
using EventFactory = std::function<std::unique_ptr<Event>()>;

/// Returns a timer that never waits within a step, for any number of steps in flight.
std::unique_ptr<EventTimer> make_event_timer(EventFactory make, int parts);

/// Limits how many batches the device has yet to copy: the host runs ahead of the device by that
/// many steps and no further.
class PendingCopies {
 public:
  /// The place of the host waits. The device has enough work then, so they cost no time.
  static constexpr std::string_view kPlace = "limit of steps in flight";

  PendingCopies(const EventFactory& make, int most);

  /// Returns the event to record after the copy that is being started.
  [[nodiscard]] Event& current() { return *events_[current_]; }
  /// Call it when the copy is started. Returns when at most `most` copies are not done.
  void advance();
  /// Waits for all copies.
  void drain();
  /// Returns whether all copies are done, like wait_in_destructor().
  bool drain_in_destructor() noexcept;

 private:
  std::vector<std::unique_ptr<Event>> events_;
  std::size_t current_ = 0;
};

/// Reads a few numbers from a device without waiting for the work that computes them: start() only
/// launches the copy, and read() returns the numbers later.
class LateValues {
 public:
  /// Without an event, start() copies at once, as on a CPU.
  explicit LateValues(std::unique_ptr<Event> copied) : copied_(std::move(copied)) {}

  /// Whether the values can be read right after start(), on any machine.
  [[nodiscard]] bool is_immediate() const { return copied_ == nullptr; }
  /// Starts to copy `values`, float64 with the same size in every call.
  void start(const at::Tensor& values);
  /// Returns whether read() would return without waiting.
  [[nodiscard]] bool is_ready() const { return is_immediate() || copied_->is_done(); }
  /// Returns the values of the last start(), which are valid until the next one. Counts a host wait
  /// at `place` if the device has not computed them yet.
  [[nodiscard]] std::span<const double> read(std::string_view place);

 private:
  std::unique_ptr<Event> copied_;
  at::Tensor host_;  // page-locked if the values are on a GPU
};

}  // namespace trainctl::device
