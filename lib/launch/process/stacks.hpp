#pragma once

#include "base/files.hpp"

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// Where the threads of a job are that hangs: asked for by the supervisor, one after the other.

namespace trainctl::launch {

/// A living process to be asked.
struct StackSource {
  int rank = 0;
  pid_t pid = 0;
  int fd = -1;  // the reading end of the pipe that its threads answer through; never waits
};

/// logs/rank_N.stacks.txt.
fs::path stacks_path(const fs::path& log_folder, int rank);
/// Removes the one of an earlier run in the same folder.
void remove_stacks(const fs::path& log_folder, int rank);

/// Writes for each process the name, state, kernel function and system call of its threads, and
/// their frames where they answer within 0.2 s; a stopped process is continued first. All together
/// it takes about 2 s at most, in the order given: threads whose turn does not come, those that
/// block the signal, and those of a process that has no handler for it, have their states only. At
/// most 512 threads and 1 MiB a file. Returns the ranks whose file was written; a failure is
/// logged.
std::vector<int> write_stacks(const fs::path& log_folder, std::span<const StackSource> sources);

// The worker's side of launch/stacks.hpp.

/// From here on every thread that stack_signal() reaches writes its frames to `fd`, a pipe that
/// does not wait, between the lines "begin TID" and "end TID". To be called before there are other
/// threads; -1: nobody asks.
void answer_with_stacks(int fd);

/// A thread of another process as the kernel sees it; words are empty where it does not tell.
struct ThreadState {
  pid_t tid = 0;
  std::string name;
  std::string state;        // "S (sleeping)", "D (disk sleep)", "T (stopped)"
  std::string waits_in;     // the kernel's function
  std::string system_call;  // number, arguments, stack and instruction pointer; or "running"
  bool catches = false;     // its process has a handler for stack_signal()
  bool blocks = false;      // that signal does not reach it
};

struct Threads {
  std::vector<ThreadState> states;
  std::size_t left_out = 0;  // beyond the most that were asked for
};

/// The threads of a process, the oldest first: empty where it is gone. Never waits for it.
Threads threads_of(pid_t pid, std::size_t most);

}  // namespace trainctl::launch
