#include "base/machine/host_waits.hpp"

#include <mutex>

namespace trainctl {
namespace {

struct Waits {
  std::mutex mutex;
  std::map<std::string, std::int64_t> counts;
};

Waits& waits() {
  static Waits instance;
  return instance;
}

}  // namespace

void count_host_wait(std::string_view place) {
  const std::scoped_lock lock(waits().mutex);
  ++waits().counts[std::string(place)];
}

std::map<std::string, std::int64_t> host_waits() {
  const std::scoped_lock lock(waits().mutex);
  return waits().counts;
}

std::map<std::string, std::int64_t> host_waits_since(
    const std::map<std::string, std::int64_t>& before) {
  std::map<std::string, std::int64_t> since = host_waits();
  for (const auto& [place, count] : before) since[place] -= count;
  std::erase_if(since, [](const auto& one) { return one.second == 0; });
  return since;
}

}  // namespace trainctl
