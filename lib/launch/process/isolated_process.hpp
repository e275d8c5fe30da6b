#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Restrictions of a process that parses untrusted input: it can compute, allocate memory, and read
/// and write open descriptors, but cannot open files, start processes or use the network. Resource
/// limits apply everywhere, the system call filter on kernels with seccomp.
struct Sandbox {
  std::vector<int> descriptors;    // that stay open, in addition to stderr
  std::uint64_t memory_bytes = 0;  // in addition to what is already mapped
  std::uint64_t file_bytes = 0;    // maximum size of a file that it writes
  std::uint64_t cpu_s = 60;
};

struct IsolatedResult {
  std::string text;                  // return value of the body
  std::uint64_t peak_rss_bytes = 0;  // of the child
};

struct Isolation {
  std::string process_name = "the measuring process";  // name in error messages
  std::optional<Sandbox> sandbox = {};                 // restrictions of the child
};

/// Thrown if no child process could be created, for a reason unrelated to its task.
struct ForkError : Error {
  using Error::Error;
};

/// Runs `body` in a forked child, so that its memory use does not affect this process. Must be
/// called while this process has one thread. Throws ForkError(resource). An exception of the body
/// is thrown here as an Error of the same kind. A child that ended by a signal is Error(resource)
/// for SIGKILL, else Error(unexpected).
IsolatedResult run_isolated(const std::function<std::string()>& body,
                            const Isolation& isolation = {});

/// Reads a pipe or socket until the other side closes it or an error occurs.
std::string read_to_end(int fd);

}  // namespace trainctl::launch
