#pragma once

#include "spec/scheduler/schedule.hpp"

#include <array>

namespace trainctl::spec::scheduler {

enum class AnnealStrategy { cos, linear };
constexpr std::array<const char*, 2> enum_names(AnnealStrategy) { return {"cos", "linear"}; }

struct OneCycleLr : Warmup {
  static constexpr auto kSummary =
      "Up to the optimizer's rate and down again (Smith & Topin 2017), as torch's OneCycleLR with "
      "max_lr = optimizer.lr.";

  config::Auto<std::int64_t> total_steps;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;

  OneCycleLr() { interval = Interval::step; }
  static void describe(config::Describe<OneCycleLr>& options) {
    options
        .field("total_steps", &OneCycleLr::total_steps,
               "Intervals of the cycle; auto: the whole run after warm-up.")
        .at_least(2);
    options.field("pct_start", &OneCycleLr::pct_start, "Share of the cycle that rises.")
        .above(0)
        .below(1);
    options.field("anneal_strategy", &OneCycleLr::anneal_strategy,
                  "Curve of the rise and the fall.");
    options
        .field("div_factor", &OneCycleLr::div_factor, "The cycle starts at the rate divided by it.")
        .above(0);
    options
        .field("final_div_factor", &OneCycleLr::final_div_factor,
               "The cycle ends at its first rate divided by it.")
        .above(0);
    options.field("three_phase", &OneCycleLr::three_phase,
                  "Falls as it rose, then to the end; needs pct_start of at most 0.5.");
    options.field("cycle_momentum", &OneCycleLr::cycle_momentum,
                  "Cycles the optimizer's momentum, or Adam's beta1, inversely to the learning "
                  "rate and in place of the optimizer's own value. Such a step is not captured as "
                  "a CUDA graph.");
    options
        .field("base_momentum", &OneCycleLr::base_momentum,
               "Momentum at the highest rate, with cycle_momentum.")
        .at_least(0)
        .below(1);
    options
        .field("max_momentum", &OneCycleLr::max_momentum,
               "Momentum at the start and at the end, with cycle_momentum.")
        .at_least(0)
        .below(1);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
