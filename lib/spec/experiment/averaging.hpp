#pragma once

#include <cstdint>
#include <optional>

namespace trainctl::spec {

/// The decay of an exponential average that grows with the number of updates, as in timm's
/// ModelEmaV3(use_warmup=True): 1 - (1 + n / gamma)^-power, between min_decay and the full decay.
struct DecayWarmup {
  double gamma = 1;
  double power = 2.0 / 3;
  double min_decay = 0;
};

/// An exponential average: its decay, and how the decay warms up; absent: it does not.
struct ExponentialDecay {
  double decay = 0.999;
  std::optional<DecayWarmup> warmup = {};
};

/// The share of the old average that update number `update` keeps, counted from 1: the first one
/// takes the weights as they are.
double decay_of_update(const ExponentialDecay& average, std::int64_t update);

/// The share that the weights of the first update have in the average after `updates` of them.
/// Shares below 1e-6 are not told apart.
double share_of_first(const ExponentialDecay& average, std::int64_t updates);

}  // namespace trainctl::spec
