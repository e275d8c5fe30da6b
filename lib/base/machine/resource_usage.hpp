#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl {

/// The resources that this process has used since it started, and how long threads waited for them.
/// Values that the kernel does not report are absent.
struct UsageCounters {
  std::optional<double> cpu_stalled_s;  // some thread waited for a core
  std::optional<double> io_stalled_s;   // some thread waited for a disk
  std::optional<double> memory_stalled_s;
  std::optional<std::int64_t> periods;    // enforcement periods of the CPU quota
  std::optional<std::int64_t> throttled;  // periods in which the group used up its quota
  std::int64_t major_faults = 0;          // page faults that were served from a disk
  std::int64_t involuntary_switches = 0;  // a runnable thread was preempted
  std::optional<double> thread_cpu_s;     // CPU time of the threads with the requested name
  int threads = 0;                        // number of these threads
};

/// Reads the counters. Stall times are those of the innermost control group that has them, or else
/// of the machine (https://docs.kernel.org/accounting/psi.html). `thread_name` is the name that the
/// kernel shows, at most 15 characters. `root` is "/" outside tests.
UsageCounters read_usage(const std::string& thread_name, const std::filesystem::path& root = "/");

/// Returns the used share of memory_limit(), 0 to 1.
std::optional<double> memory_taken(const std::filesystem::path& root = "/");

/// CPU seconds of a thread since it started.
struct ThreadTimes {
  double run_s = 0;
  double wait_s = 0;  // runnable, but waiting for a core
};

/// CPU seconds of the cores that this process may run on, since the machine booted.
struct CoreTimes {
  double busy_s = 0;    // used by any process
  double stolen_s = 0;  // used by other guests of the host (steal)
  double idle_s = 0;
  double run_s = 0;  // used by this process, its parent and its siblings
  /// The threads of this process by thread id; empty if the kernel does not report them.
  std::map<std::string, ThreadTimes> threads = {};
};

/// Shares of the CPU time of these cores between two readings, each 0 to 1.
struct CoreUse {
  double outside = 0;  // used by processes outside of the run
  double stolen = 0;   // used by other guests of the host (steal)
  double idle = 0;
  /// The share of the time in which runnable threads of this process waited for a core; absent if
  /// the kernel does not report it.
  std::optional<double> waited = {};
};

/// Reads /proc/stat for the cores in the affinity mask of this process. Its parent and siblings
/// count if they share a core with it. Empty if the kernel does not report the times. `root` is "/"
/// outside tests.
std::optional<CoreTimes> read_core_times(const std::filesystem::path& root = "/");

/// Returns the shares between two readings. Empty if less than 0.1 s passed, since clock ticks are
/// too coarse for that.
std::optional<CoreUse> core_use(const CoreTimes& before, const CoreTimes& now);

/// The share of the cores above which processes outside of the run change measurements.
inline constexpr double kNotableOutsideShare = 0.10;

/// Returns whether other processes slow down the run: they take a tenth of the cores, and the
/// threads of the run wait for a core in a tenth of the time in which they are runnable (if that is
/// not known: hardly any core is idle); or the host withholds a tenth of the CPU time.
bool is_contended(const CoreUse& use);

/// Measures what other processes take of the cores during a measurement.
class CoreUseMeter {
 public:
  CoreUseMeter() : before_(read_core_times()) {}

  /// Returns the share of the cores that others took since construction; 0 if without effect.
  [[nodiscard]] double taken() const;

 private:
  std::optional<CoreTimes> before_;
};

}  // namespace trainctl
