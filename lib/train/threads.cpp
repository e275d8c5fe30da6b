#include "train/threads.hpp"

#include "base/stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trainctl::train {
namespace {

constexpr double kBlock = 0.01;  // seconds of one timed block, if a step is shorter
constexpr double kBudget = 2.0;  // seconds after which no new round begins
constexpr int kRounds = 5;
constexpr double kWorthIt = 1.15;
constexpr double kStepBudget = 0.5;  // seconds after which no step begins
constexpr std::size_t kMostSteps = 50;

double timed(const ThreadProbe& probe, const Clock& clock, int steps) {
  const double begin = clock.now();
  for (int i = 0; i < steps; ++i) probe.step();
  return (clock.now() - begin) / steps;
}

}  // namespace

ThreadChoice probe_threads(const ThreadProbe& probe, const Clock& clock) {
  const double begin = clock.now();
  probe.set_threads(probe.most);
  probe.step();  // allocations and thread pools belong to no number
  probe.set_threads(1);
  probe.step();
  const int steps =
      static_cast<int>(std::clamp(kBlock / std::max(timed(probe, clock, 1), 1e-9), 1.0, 100.0));
  std::vector<double> one;
  std::vector<double> many;
  for (int round = 0; round < kRounds && (round == 0 || clock.now() - begin < kBudget); ++round) {
    probe.set_threads(1);
    one.push_back(timed(probe, clock, steps));
    probe.set_threads(probe.most);
    many.push_back(timed(probe, clock, steps));
  }
  const double ratio = median(many) / median(one);
  const bool worth_it = ratio * kWorthIt <= 1;
  ThreadChoice choice{worth_it ? probe.most : 1,
                      fmt::format("probe: {} threads take {:.2f}x of 1", probe.most, ratio),
                      median(worth_it ? many : one)};
  probe.set_threads(choice.threads);
  return choice;
}

double time_steps(const std::function<void()>& step, const Clock& clock) {
  const double begin = clock.now();
  const auto timed_one = [&] {
    const double before = clock.now();
    step();
    return clock.now() - before;
  };
  double last = timed_one();
  if (clock.now() - begin < kStepBudget) last = timed_one();
  std::vector<double> steps;
  while (clock.now() - begin < kStepBudget && steps.size() < kMostSteps)
    steps.push_back(timed_one());
  return steps.empty() ? last : median(steps);
}

}  // namespace trainctl::train
