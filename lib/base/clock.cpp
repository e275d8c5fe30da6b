#include "base/clock.hpp"

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <ctime>

namespace trainctl {

double SteadyClock::now() const {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_start).count();
}

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

std::string utc_timestamp() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string utc_stamp() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t fraction = now.tv_nsec * std::int64_t{0x10000} / kNsPerSecond;
  return fmt::format("{:%Y%m%d-%H%M%S}-{:04x}", fmt::gmtime(now.tv_sec), fraction);
}

}  // namespace trainctl
