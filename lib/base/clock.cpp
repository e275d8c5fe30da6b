#include "base/clock.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace trainctl {
namespace {

std::string format_time(const std::tm& time, const char* pattern) {
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), pattern, &time);
  return {text.data(), length};
}

}  // namespace

double SteadyClock::now() const {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_start).count();
}

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

std::string utc_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return format_time(parts, "%Y-%m-%dT%H:%M:%SZ");
}

std::string utc_stamp() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t fraction = now.tv_nsec * std::int64_t{0x10000} / kNsPerSecond;
  return format_time(parts, "%Y%m%d-%H%M%S") + fmt::format("-{:04x}", fraction);
}

}  // namespace trainctl
