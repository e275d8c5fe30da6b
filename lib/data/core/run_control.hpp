#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>

namespace trainctl::data {

/// Transfers of this process end as soon as the number of the signal that asks for a stop is not 0.
void watch_stop_signal(const volatile int* signal);

/// While it lives, transfers of this thread end as soon as the token says so, too.
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

/// While it lives, note_progress() counts, from 1 on, so that slow loading can be told from a hang.
/// One at a time; the loaders end before it.
class ProgressCount {
 public:
  explicit ProgressCount(std::atomic<std::int64_t>* counter);
  ~ProgressCount();
  ProgressCount(const ProgressCount&) = delete;
  ProgressCount& operator=(const ProgressCount&) = delete;
};

/// Something was read or made. From any thread.
void note_progress() noexcept;

}  // namespace trainctl::data
