#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>

namespace trainctl::data {

/// Makes all transfers of this process stop when `*signal`, the number of a received signal, is not
/// 0.
void watch_stop_signal(const volatile int* signal);

/// Makes transfers of this thread also stop when the token requests it, for the lifetime of the
/// scope.
class StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token before_;
};

/// Returns whether transfers of this thread should stop.
bool stop_wanted() noexcept;
/// Throws Error(interrupted) for SIGINT or Error(terminated) for any other reason when transfers of
/// this thread should stop.
void throw_if_stopped();
/// Sleeps, but returns early when a stop is requested.
void sleep_unless_stopped(double seconds);

/// Counts note_progress() calls during its lifetime, so that a watchdog can distinguish slow
/// loading from a hang. Only one may exist at a time, and it must outlive the loaders.
class ProgressCount {
 public:
  explicit ProgressCount(std::atomic<std::int64_t>* counter);
  ~ProgressCount();
  ProgressCount(const ProgressCount&) = delete;
  ProgressCount& operator=(const ProgressCount&) = delete;
};

/// Reports that something was read or made. Thread-safe.
void note_progress() noexcept;

}  // namespace trainctl::data
