#include "launch/pulse.hpp"

#include "base/stats.hpp"

#include <algorithm>
#include <vector>

namespace trainctl::launch {
namespace {

constexpr double kShortestLimit = 60;
constexpr double kSteps = 10;
constexpr std::size_t kRemembered = 64;

bool is_watched(std::int32_t phase) {
  return phase == static_cast<std::int32_t>(events::Phase::train) ||
         phase == static_cast<std::int32_t>(events::Phase::validate);
}

}  // namespace

void Pulse::see(const events::Heartbeat& page, double now) {
  const std::int64_t stamp = page.monotonic_ns.load(std::memory_order_acquire);
  if (stamp == stamp_) return;
  const bool watched = is_watched(page.phase.load(std::memory_order_relaxed));
  // The first step counts, too: the second may be as long.
  if (watched && (watched_ || (gaps_.empty() && stamp_ != 0))) gaps_.push_back(now - seen_at_);
  if (gaps_.size() > kRemembered) gaps_.pop_front();
  stamp_ = stamp;
  watched_ = watched;
  seen_at_ = now;
}

double Pulse::limit() const {
  if (gaps_.empty()) return kShortestLimit;
  return std::max(kShortestLimit, kSteps * median(std::vector<double>(gaps_.begin(), gaps_.end())));
}

std::optional<double> Pulse::silence(double now) const {
  const double silent_s = now - seen_at_;
  return watched_ && silent_s > limit() ? std::optional(silent_s) : std::nullopt;
}

}  // namespace trainctl::launch
