#pragma once

#include <string>

namespace trainctl {

/// A monotonic clock, in seconds since an arbitrary start. Functions take it as a parameter, so
/// that tests of reports and supervision can advance time by hand.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual double now() const = 0;
};

/// The steady clock of the system; now() is thread-safe.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] double now() const override;
};

/// Returns the steady clock of the process, for main() and other code that creates objects.
const Clock& steady_clock();

/// Returns the wall time in UTC, e.g. "2026-11-21T05:01:48Z". It is for people and file names only;
/// durations come from Clock.
std::string utc_timestamp();

/// Returns the time in UTC for file names, e.g. "20261121-050148-9c3f". The last part is the
/// fraction of the second in units of 1/65536, so that names also sort by time within a second.
std::string utc_stamp();

}  // namespace trainctl
