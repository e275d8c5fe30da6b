#include "base/clock.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>

using namespace trainctl;

namespace {

/// Converts "2026-11-21T05:01:48Z" to "20261121-050148".
std::string compact(std::string timestamp) {
  std::erase_if(timestamp, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
  std::ranges::replace(timestamp, 'T', '-');
  return timestamp;
}

class TimeZone {
 public:
  explicit TimeZone(const char* zone) {
    const char* found = std::getenv("TZ");
    if (found != nullptr) before_ = found;
    had_one_ = found != nullptr;
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  ~TimeZone() {
    had_one_ ? ::setenv("TZ", before_.c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;

 private:
  std::string before_;
  bool had_one_ = false;
};

}  // namespace

TEST_CASE("utc_stamp: names of run folders do not depend on the time zone") {
  const TimeZone zone("TEST12");  // local time is UTC - 12 h
  const std::string before = compact(utc_timestamp());
  const std::string stamp = utc_stamp();
  const std::string after = compact(utc_timestamp());
  CHECK(stamp.size() == before.size() + 5);
  CHECK(before <= stamp.substr(0, before.size()));
  CHECK(stamp.substr(0, after.size()) <= after);
}
