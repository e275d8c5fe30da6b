#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trainctl {

/// What this process has used of the machine since it began, and how long something had to wait for
/// it: two readings tell what happened between them. Absent where the kernel does not tell.
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

/// Stalls are those of the innermost control group that tells them, else of the machine
/// (https://docs.kernel.org/accounting/psi.html). `thread_name`: as the kernel shows it, 15
/// characters at most. `root` is "/" outside tests. A file that is missing or makes no sense counts
/// as not told.
UsageCounters read_usage(const std::string& thread_name, const std::filesystem::path& root = "/");

/// The share of the memory limit (of the control groups v1 or v2, else of the machine) that cannot
/// be had any more, 0 to 1.
std::optional<double> memory_taken(const std::filesystem::path& root = "/");

}  // namespace trainctl
