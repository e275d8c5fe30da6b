#pragma once

// The worker's side of launch/stacks.hpp.

namespace trainctl::launch {

/// From here on every thread that stack_signal() reaches writes its frames to `fd`, a pipe that
/// does not wait, between the lines "begin TID" and "end TID". To be called before there are other
/// threads; -1: nobody asks.
void answer_with_stacks(int fd);

}  // namespace trainctl::launch
