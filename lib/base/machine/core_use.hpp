#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl {

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

/// Reads /proc/stat for the cores of this process' affinity. The run is this process and its
/// supervisor with all ranks that it started; one whose affinity shares no core with this process
/// does not count. Empty where the kernel does not report it. `root` is "/" outside tests.
std::optional<CoreTimes> read_core_times(const std::filesystem::path& root = "/");

/// Empty where less than a tenth of a second has passed: clock ticks would be too coarse.
std::optional<CoreUse> core_use(const CoreTimes& before, const CoreTimes& now);

/// From which share on processes outside of a run change what is measured.
inline constexpr double kNotableOutsideShare = 0.10;

/// Whether others hold up the run: they take a tenth of the cores, and the run's threads wait for a
/// core in a tenth of the time in which they are ready to run; or the host withholds a tenth of the
/// time. Where nobody tells how long threads wait, hardly an idle core counts as waiting.
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
