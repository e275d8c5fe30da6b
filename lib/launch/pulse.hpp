#pragma once

#include "events/heartbeat.hpp"

#include <cstdint>
#include <deque>
#include <optional>

namespace trainctl::launch {

/// Whether a rank still moves, from the stamps of its shared page. Only training and validation are
/// watched: loading the data, the first step of an epoch and saving may take as long as they like.
/// Times are the supervisor's own, so that one that was stopped itself blames nobody.
class Pulse {
 public:
  /// To be called a few times a second.
  void see(const events::Heartbeat& page, double now);
  /// Seconds since the last new stamp, where they are more than the limit.
  [[nodiscard]] std::optional<double> silence(double now) const;
  /// A minute, or ten times what passes between two stamps of steps if that is more; what passes
  /// before the first counts till there are others.
  [[nodiscard]] double limit() const;

 private:
  std::int64_t stamp_ = 0;
  bool watched_ = false;
  double seen_at_ = 0;
  std::deque<double> gaps_;
};

}  // namespace trainctl::launch
