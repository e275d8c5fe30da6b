#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace trainctl::launch {

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
