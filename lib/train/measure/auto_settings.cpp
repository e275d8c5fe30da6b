#include "train/measure/auto_settings.hpp"

#include "base/statistics.hpp"
#include "base/strings.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

namespace trainctl::train {
namespace {

constexpr double kBlock = 0.01;       // minimum duration of one timed block, in seconds
constexpr double kMostSeconds = 2.0;  // seconds after which no new round begins
constexpr int kRounds = 5;
constexpr double kWorthIt = 1.15;
constexpr double kStepBudget = 0.5;  // seconds after which no new step begins
constexpr std::size_t kMostSteps = 50;
constexpr double kMargin = 1.15;  // tolerance for the error of the estimates

/// Runs the given number of steps and returns when they have finished.
using Steps = std::function<void(int)>;

/// Seconds per step, one value for each round.
struct Turns {
  std::vector<double> one;
  std::vector<double> other;
};

double timed(const Steps& take, const Clock& clock, int steps) {
  const double begin = clock.now();
  take(steps);
  return (clock.now() - begin) / steps;
}

/// Times two variants of a step alternately, after one warm-up step of each. A round runs as many
/// steps of each variant as fit in 10 ms.
Turns time_in_turns(const Steps& one, const Steps& other, const Clock& clock) {
  const double begin = clock.now();
  other(1);  // neither variant should pay for allocations and the start of thread pools
  one(1);
  const int steps =
      static_cast<int>(std::clamp(kBlock / std::max(timed(one, clock, 1), 1e-9), 1.0, 100.0));
  Turns turns;
  for (int round = 0; round < kRounds && (round == 0 || clock.now() - begin < kMostSeconds);
       ++round) {
    turns.one.push_back(timed(one, clock, steps));
    turns.other.push_back(timed(other, clock, steps));
  }
  return turns;
}

double time_step(const std::function<void()>& step, const Clock& clock) {
  const double begin = clock.now();
  step();
  return clock.now() - begin;
}

/// Returns the seconds of steps, of which none begins after `until` except for the first.
std::vector<double> times_until(const std::function<void()>& step, double until,
                                const Clock& clock) {
  std::vector<double> steps;
  do {
    steps.push_back(time_step(step, clock));
  } while (clock.now() < until && steps.size() < kMostSteps);
  return steps;
}

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
                      fmt::format("probe: a step takes {:.2f}x as long with {} threads as with 1",
                                  ratio, probe.most),
                      median(worth_it ? many : one)};
  probe.set_threads(choice.threads);
  return choice;
}

int warm_up_steps(at::Device device) { return device.is_cpu() ? 1 : 3; }

double time_steps(const std::function<void()>& step, at::Device device, const Clock& clock) {
  if (!device.is_cpu()) {
    for (int i = 0; i < warm_up_steps(device); ++i) step();
    return median(times_until(step, clock.now() + kStepBudget, clock));
  }
  const double until = clock.now() + kStepBudget;
  double last = time_step(step, clock);
  if (clock.now() >= until) return last;
  last = time_step(step, clock);
  return clock.now() < until ? median(times_until(step, until, clock)) : last;
}

bool gains_by_channels_last(spec::Precision precision) {
  return precision != spec::Precision::full;
}

LayoutChoice choose_layout(const LayoutFacts& facts) {
  if (facts.convolution_flops <= 0) return {false, kNoConvolutions};
  const auto part = static_cast<double>(facts.convolution_flops);
  const double share = part / static_cast<double>(facts.flops);
  const bool channels_last = 3 * facts.convolution_flops >= 2 * facts.flops;
  return {channels_last, fmt::format("{:.0f} % of the operations are convolutions of images{}",
                                     100 * share, channels_last ? "" : "; two thirds are needed")};
}

LayoutChoice probe_layout(const LayoutProbe& probe, const Clock& clock) {
  const auto repeated = [](const std::function<void()>& step) {
    return [&step](int steps) {
      for (int i = 0; i < steps; ++i) step();
    };
  };
  const auto [first, last] =
      time_in_turns(repeated(probe.channels_first), repeated(probe.channels_last), clock);
  std::vector<double> gains;
  for (std::size_t i = 0; i < first.size(); ++i) gains.push_back(first[i] / last[i]);
  const double gain = median(gains);
  const bool never_slower = *std::ranges::min_element(gains) > 1;
  return {gain >= kWorthIt && never_slower,
          fmt::format("probe: {:.2f}x as fast with channels_last{}", gain,
                      gain >= kWorthIt && !never_slower ? ", but not every time" : "")};
}

RecomputeChoice choose_recompute(const StepMemory& memory) {
  const std::int64_t left = std::max<std::int64_t>(memory.free - memory.rest, 0);
  const bool fits = kMargin * static_cast<double>(memory.activations) <= static_cast<double>(left);
  return {!fits,
          fmt::format("activations need about {} plus a margin of {:.0f} %, and {} are free, so {}",
                      human_bytes(memory.activations), 100 * (kMargin - 1), human_bytes(left),
                      fits ? "they are kept in memory" : "blocks are recomputed")};
}

std::int64_t least_of_ranks(std::int64_t mine, dist::Communicator& communicator) {
  const dist::RankInfo place = communicator.rank_info();
  const at::Tensor all = at::zeros({place.world_size}, at::kLong);
  auto* values = all.mutable_data_ptr<std::int64_t>();
  values[place.rank] = mine;
  communicator.sum(all, "exchange of the free memory");
  return *std::min_element(values, values + place.world_size);
}

}  // namespace trainctl::train
