#pragma once

#include "base/files.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>

/// Measures work independently of other processes: user-space instructions of this thread and of
/// the threads that it starts later, if the kernel lets us count them; otherwise the CPU time of
/// this process in nanoseconds.
class WorkMeter {
 public:
  WorkMeter() {
    perf_event_attr counter{};
    counter.type = PERF_TYPE_HARDWARE;
    counter.size = sizeof counter;
    counter.config = PERF_COUNT_HW_INSTRUCTIONS;
    counter.exclude_kernel = 1;
    counter.exclude_hv = 1;
    counter.inherit = 1;
    fd_ = trainctl::Fd(static_cast<int>(::syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0)));
  }

  [[nodiscard]] bool counts_instructions() const {
    std::uint64_t count = 0;
    return fd_.valid() && ::read(fd_.get(), &count, sizeof count) == sizeof count && count > 0;
  }

  template <class Body>
  [[nodiscard]] double measure(const Body& body) const {
    const double before = read();
    body();
    return read() - before;
  }

 private:
  [[nodiscard]] double read() const {
    std::uint64_t count = 0;
    if (fd_.valid() && ::read(fd_.get(), &count, sizeof count) == sizeof count && count > 0)
      return static_cast<double>(count);
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  }

  trainctl::Fd fd_;
};

/// A reader may need at most this factor more work when its input doubles. CPU time also grows when
/// the input no longer fits in the caches, all the more if other processes use them.
inline const double kMostPerDoubling = WorkMeter().counts_instructions() ? 2.3 : 2.8;
inline constexpr int kDoublings = 5;

/// Returns the growth of the work per doubling of the input, over five doublings at once: 4 for a
/// quadratic reader, 2 for a linear one. `prepare(size)` makes the input and returns a callable
/// that reads it; only the callable is measured. Other processes in the same caches only ever add
/// work, so the function takes the minimum of several measurements.
template <class Prepare>
double growth_per_doubling(const Prepare& prepare, std::size_t size) {
  constexpr int kMostAttempts = 12;
  const WorkMeter meter;
  double small = std::numeric_limits<double>::infinity();
  double large = small;
  double growth = small;
  for (int attempt = 0; attempt < kMostAttempts && growth > kMostPerDoubling; ++attempt) {
    small = std::min(small, meter.measure(prepare(size)));
    large = std::min(large, meter.measure(prepare(size << kDoublings)));
    growth = std::pow(large / small, 1.0 / kDoublings);
  }
  return growth;
}
