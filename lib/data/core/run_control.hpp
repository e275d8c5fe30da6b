#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>

namespace trainctl::data {

/// From here on transfers of this process end as soon as the number is not 0: the signal that asks
/// for a stop. Null: no such number.
void watch_stop_signal(const volatile int* signal);

/// While it lives, transfers of this thread end as soon as the token says so, too: nobody waits for
/// them any more.
class StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_;
};

/// Whether transfers of this thread should end.
bool stop_wanted() noexcept;
/// Throws Error(interrupted) or, for any other reason, Error(terminated) where they should.
void throw_if_stopped();
/// Sleeps; ends early where they should end.
void sleep_unless_stopped(double seconds);

/// While it lives, what this process reads and makes of its data is counted, from 1 on, for
/// somebody who tells slow loading from a hang by it. One at a time; the loaders end before it.
class ProgressCount {
 public:
  /// Null: nobody watches.
  explicit ProgressCount(std::atomic<std::int64_t>* counter);
  ~ProgressCount();
  ProgressCount(const ProgressCount&) = delete;
  ProgressCount& operator=(const ProgressCount&) = delete;
};

/// Something was read or made. From any thread.
void note_progress() noexcept;

}  // namespace trainctl::data
