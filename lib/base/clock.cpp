#include "base/clock.hpp"

#include <array>
#include <chrono>
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

std::string local_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return format_time(parts, "%Y%m%d-%H%M%S");
}

}  // namespace trainctl
