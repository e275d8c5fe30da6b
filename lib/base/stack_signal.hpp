#pragma once

#include <csignal>

namespace trainctl {

/// By which the supervisor asks a thread of a worker where it is: a thread that blocks it cannot
/// answer.
inline int stack_signal() {
  constexpr int kOffset = 9;  // away from the first ones, which libraries take
  return SIGRTMIN + kOffset;
}

}  // namespace trainctl
