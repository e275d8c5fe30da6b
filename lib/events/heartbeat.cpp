#include "events/heartbeat.hpp"

#include <ctime>

namespace trainctl::events {

void Heartbeat::stamp(Phase now_in, std::int64_t step) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  global_step.store(step, std::memory_order_relaxed);
  phase.store(static_cast<std::int32_t>(now_in), std::memory_order_relaxed);
  monotonic_ns.store(std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec, std::memory_order_release);
}

}  // namespace trainctl::events
