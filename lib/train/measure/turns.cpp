#include "train/measure/turns.hpp"

#include <algorithm>

namespace trainctl::train {
namespace {

constexpr double kBlock = 0.01;  // seconds of one timed block, if a step is shorter
constexpr double kBudget = 2.0;  // seconds after which no new round begins
constexpr int kRounds = 5;

double timed(const Steps& take, const Clock& clock, int steps) {
  const double begin = clock.now();
  take(steps);
  return (clock.now() - begin) / steps;
}

}  // namespace

Turns time_in_turns(const Steps& one, const Steps& other, const Clock& clock) {
  const double begin = clock.now();
  other(1);  // allocations and thread pools belong to neither side
  one(1);
  const int steps =
      static_cast<int>(std::clamp(kBlock / std::max(timed(one, clock, 1), 1e-9), 1.0, 100.0));
  Turns turns;
  for (int round = 0; round < kRounds && (round == 0 || clock.now() - begin < kBudget); ++round) {
    turns.one.push_back(timed(one, clock, steps));
    turns.other.push_back(timed(other, clock, steps));
  }
  return turns;
}

}  // namespace trainctl::train
