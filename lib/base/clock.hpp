#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

/// Seconds since an arbitrary start, never going back. Injected, so that reports and supervision
/// are tested with invented times.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual double now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] double now() const override;
};

class ManualClock final : public Clock {
 public:
  [[nodiscard]] double now() const override { return now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

/// The one process-wide steady clock, for composition roots.
const Clock& steady_clock();

/// Wall time for people and file names only; durations come from Clock.
std::string utc_timestamp();  // 2026-11-21T05:01:48Z

/// Returns the time in UTC for file names, e.g. 20261121-050148-9c3f. The last part is the fraction
/// of the second in units of 1/65536, so that names sort by time within a second, too.
std::string utc_stamp();

}  // namespace trainctl
