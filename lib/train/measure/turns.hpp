#pragma once

#include "base/clock.hpp"

#include <functional>
#include <vector>

namespace trainctl::train {

/// Takes so many steps, and returns when their work is done.
using Steps = std::function<void(int)>;

/// Seconds of a step, one number for each round.
struct Turns {
  std::vector<double> one;
  std::vector<double> other;
};

/// Times two ways to take a step in turns, after one step of each to warm up: up to five rounds,
/// none of which begins after two seconds. A round takes as many steps of each as 10 ms hold.
Turns time_in_turns(const Steps& one, const Steps& other, const Clock& clock);

}  // namespace trainctl::train
