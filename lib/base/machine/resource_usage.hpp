#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl {

/// What this process has used of the machine since it began, and how long threads waited for it.
/// Absent where the kernel does not tell.
struct UsageCounters {
  std::optional<double> cpu_stalled_s;  // some thread waited for a core
  std::optional<double> io_stalled_s;   // for a disk
  std::optional<double> memory_stalled_s;
  std::optional<std::int64_t> periods;    // of the CPU quota
  std::optional<std::int64_t> throttled;  // of these: the group had used up its share
  std::int64_t major_faults = 0;          // pages that came from a disk
  std::int64_t involuntary_switches = 0;  // a thread that could go on lost its core
  std::optional<double> thread_cpu_s;     // of the threads that were asked for
  int threads = 0;                        // of these: how many there are
};

/// Reads the counters; stalls are those of the innermost control group that has them, else of the
/// machine (https://docs.kernel.org/accounting/psi.html). `thread_name`: as the kernel shows it, 15
/// characters at most. `root` is "/" outside tests.
UsageCounters read_usage(const std::string& thread_name, const std::filesystem::path& root = "/");

/// Returns the used share, 0 to 1, of memory_limit().
std::optional<double> memory_taken(const std::filesystem::path& root = "/");

/// CPU seconds of a thread since it was started.
struct ThreadTimes {
  double run_s = 0;
  double wait_s = 0;  // it was ready to run, and no core was free for it
};

/// CPU seconds of the cores that this process may run on, since the machine was started.
struct CoreTimes {
  double busy_s = 0;    // any process
  double stolen_s = 0;  // other guests of the host
  double idle_s = 0;
  double run_s = 0;  // by this process, its parent and the other children of its parent
  /// Of this process, by their number; empty where the kernel does not tell.
  std::map<std::string, ThreadTimes> threads = {};
};

/// Shares of the time of these cores between two readings, each 0 to 1.
struct CoreUse {
  double outside = 0;  // processes outside of the run
  double stolen = 0;   // other guests of the host
  double idle = 0;
  /// Of the time in which this process' threads were ready to run, the share in which no core was
  /// free for them; absent where the kernel does not tell.
  std::optional<double> waited = {};
};

/// Reads /proc/stat for the cores of this process' affinity; of its parent and siblings, those
/// count that share a core with it. Empty where the kernel does not report it. `root` is "/"
/// outside tests.
std::optional<CoreTimes> read_core_times(const std::filesystem::path& root = "/");

/// Returns nothing where less than 0.1 s passed, for which clock ticks are too coarse.
std::optional<CoreUse> core_use(const CoreTimes& before, const CoreTimes& now);

/// The share of the cores from which on processes outside of a run change what is measured.
inline constexpr double kNotableOutsideShare = 0.10;

/// Returns whether others hold up the run: they take a tenth of the cores, and its threads wait for
/// a core in a tenth of the time in which they are ready (if not known: hardly a core is idle); or
/// the host withholds a tenth of the time.
bool is_contended(const CoreUse& use);

/// What others take of the cores while something is measured.
class CoreUseMeter {
 public:
  CoreUseMeter() : before_(read_core_times()) {}

  /// The share of the cores that others took since this was built; 0 where they held nothing up.
  [[nodiscard]] double taken() const;

 private:
  std::optional<CoreTimes> before_;
};

}  // namespace trainctl
