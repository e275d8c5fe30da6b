#pragma once

#include "base/files.hpp"

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// Collects the stacks of a hanging job: the supervisor asks one thread after another.

namespace trainctl::launch {

/// A running process whose threads can be asked.
struct StackSource {
  int rank = 0;
  pid_t pid = 0;
  int fd = -1;  // non-blocking read end of the pipe for the answers
};

/// Returns FOLDER/rank_N.stacks.txt.
fs::path stacks_path(const fs::path& log_folder, int rank);
void remove_stacks(const fs::path& log_folder, int rank);

/// Writes a file per process with the name, state, kernel function and system call of each thread,
/// and the stack frames of threads that answer within 0.2 s. A stopped process is continued first.
/// All processes together take about 2 s, in the given order. Threads that are not reached in that
/// time, that block the signal, or whose process has no handler are written without frames. A file
/// has at most 512 threads and 1 MiB. Returns the ranks whose file was written; failures are
/// logged.
std::vector<int> write_stacks(const fs::path& log_folder, std::span<const StackSource> sources);

// The worker's side of the protocol.

/// Installs a handler that makes each thread that gets stack_signal() write its frames to `fd`, a
/// non-blocking pipe, between the lines "begin TID" and "end TID". Must be called before other
/// threads exist. -1 installs nothing.
void install_stack_handler(int fd);

/// The kernel's view of a thread of another process; texts that are not reported are empty.
struct ThreadState {
  pid_t tid = 0;
  std::string name;
  std::string state;            // "S (sleeping)", "D (disk sleep)", "T (stopped)"
  std::string kernel_function;  // that it waits in
  std::string system_call;      // number, arguments, stack and instruction pointer; or "running"
  bool has_handler = false;     // the process has a handler for stack_signal()
  bool blocks_signal = false;   // the thread blocks that signal
};

struct ThreadList {
  std::vector<ThreadState> states;
  std::size_t num_omitted = 0;  // number of threads above the limit
};

/// Returns the threads of a process, oldest first; empty if it has ended. Never blocks.
ThreadList list_threads(pid_t pid, std::size_t most);

}  // namespace trainctl::launch
