#pragma once

#include "base/clock.hpp"

namespace trainctl {

/// A clock that only advance() moves.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] double now() const override { return now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

}  // namespace trainctl
