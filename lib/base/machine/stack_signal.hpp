#pragma once

#include <csignal>

namespace trainctl {

/// Returns the signal with which the supervisor asks a thread of a worker for its stack. A thread
/// that blocks the signal cannot answer.
inline int stack_signal() {
  constexpr int kOffset = 9;  // the first real-time signals are used by libraries
  return SIGRTMIN + kOffset;
}

}  // namespace trainctl
