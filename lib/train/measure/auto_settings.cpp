#include "train/measure/auto_settings.hpp"

#include "base/statistics.hpp"
#include "train/measure/turns.hpp"

#include <fmt/format.h>

#include <vector>

namespace trainctl::train {
namespace {

constexpr double kWorthIt = 1.15;
constexpr double kStepBudget = 0.5;  // seconds after which no step begins
constexpr std::size_t kMostSteps = 50;

}  // namespace

ThreadChoice probe_threads(const ThreadProbe& probe, const Clock& clock) {
  const auto with = [&probe](int threads) {
    return [&probe, threads](int steps) {
      probe.set_threads(threads);
      for (int i = 0; i < steps; ++i) probe.step();
    };
  };
  const auto [one, many] = time_in_turns(with(1), with(probe.most), clock);
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
