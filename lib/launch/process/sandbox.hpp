#pragma once

#include <cstdint>
#include <vector>

namespace trainctl::launch {

/// What is left to a process that reads what others wrote.
struct Sandbox {
  std::vector<int> descriptors;    // that stay open, beside stderr
  std::uint64_t memory_bytes = 0;  // beyond what it has mapped already
  std::uint64_t file_bytes = 0;    // longest file it may write
  std::uint64_t cpu_s = 60;
};

/// From here on this process can compute, take memory, and read and write what is open; it opens no
/// file, starts no process and reaches no network. Limits hold everywhere, the filter of system
/// calls where the kernel has seccomp.
void enter_sandbox(const Sandbox& sandbox);

}  // namespace trainctl::launch
