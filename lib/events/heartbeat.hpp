#pragma once

#include <atomic>
#include <cstdint>

#include "events/records.hpp"

namespace trainctl::events {

/// One page of shared memory a rank, written by the training thread and read by the supervisor: a rank that died by
/// SIGKILL or hangs still tells its step and phase. Trivially copyable layout, zero-initialised by the kernel.
struct Heartbeat {
  std::atomic<std::int64_t> global_step;
  std::atomic<std::int32_t> phase;          // Phase
  std::atomic<std::int64_t> monotonic_ns;   // CLOCK_MONOTONIC of the last stamp

  void stamp(Phase now_in, std::int64_t step);
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace trainctl::events
