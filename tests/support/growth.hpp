#pragma once

#include "base/files.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>

/// Measures the work of this thread so that other processes do not matter: instructions in user
/// space where the kernel lets us count them, otherwise CPU time in nanoseconds.
class WorkMeter {
 public:
  WorkMeter() {
    perf_event_attr counter{};
    counter.type = PERF_TYPE_HARDWARE;
    counter.size = sizeof counter;
    counter.config = PERF_COUNT_HW_INSTRUCTIONS;
    counter.exclude_kernel = 1;
    counter.exclude_hv = 1;
    fd_ = trainctl::Fd(static_cast<int>(::syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0)));
  }

  /// Returns the least work of some runs of `body`.
  template <class Body>
  [[nodiscard]] double measure(const Body& body) const {
    constexpr int kRuns = 3;
    double least = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      const double before = read();
      body();
      least = std::min(least, read() - before);
    }
    return least;
  }

 private:
  [[nodiscard]] double read() const {
    std::uint64_t count = 0;
    if (fd_.valid() && ::read(fd_.get(), &count, sizeof count) == sizeof count && count > 0)
      return static_cast<double>(count);
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  }

  trainctl::Fd fd_;
};

/// Returns how many times the work of `size` twice that size takes. `prepare(size)` makes the input
/// and returns a callable that reads it; only the callable is measured. CPU time is disturbed by
/// whoever shares the caches, so the lowest of some attempts counts: a quadratic reader has 4 in
/// each.
template <class Prepare>
double growth_of(const Prepare& prepare, std::size_t size) {
  constexpr int kAttempts = 8;
  constexpr double kLinear = 2.3;
  const WorkMeter meter;
  double lowest = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < kAttempts && lowest > kLinear; ++attempt) {
    const double once = meter.measure(prepare(size));
    lowest = std::min(lowest, meter.measure(prepare(2 * size)) / once);
  }
  return lowest;
}
