#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// What is left to a process that reads what others wrote: it can compute, take memory, and read
/// and write what is open; it opens no file, starts no process and reaches no network. Limits hold
/// everywhere, the filter of system calls where the kernel has seccomp.
struct Sandbox {
  std::vector<int> descriptors;    // that stay open, beside stderr
  std::uint64_t memory_bytes = 0;  // beyond what it has mapped already
  std::uint64_t file_bytes = 0;    // longest file it may write
  std::uint64_t cpu_s = 60;
};

struct IsolatedResult {
  std::string text;                  // what the body returned
  std::uint64_t peak_rss_bytes = 0;  // of the child
};

struct Isolation {
  std::string who = "the measuring process";  // as errors call it
  std::optional<Sandbox> sandbox = {};        // which it enters first
};

/// No child could be made: what it was to do has nothing to do with it.
struct NotStarted : Error {
  using Error::Error;
};

/// Runs `body` in a forked child, so that what it allocates and touches is its own. Called while
/// this process has one thread. Throws NotStarted(resource). An exception of the body is thrown
/// here as an Error of its kind; a child that a signal ended is Error(resource) where it was
/// killed, else Error(unexpected).
IsolatedResult run_isolated(const std::function<std::string()>& body, const Isolation& how = {});

/// Reads a pipe or socket until the other side closes it, or an error ends it.
std::string read_to_end(int fd);

}  // namespace trainctl::launch
