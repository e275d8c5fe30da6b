#pragma once

#include "spec/scheduler/schedule.hpp"

#include <array>

namespace trainctl::spec::scheduler {

struct ExponentialLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the rate by gamma every interval, as torch's ExponentialLR.";

  double gamma = 0.95;

  static void describe(config::Describe<ExponentialLr>& options) {
    options.field("gamma", &ExponentialLr::gamma, "Factor of each interval.")
        .required()
        .above(0)
        .example("0.95");
    options.include<Warmup>();
  }
};

struct LinearLr : Warmup {
  static constexpr auto kSummary =
      "A straight line from start_factor to end_factor of the learning rate, as torch's LinearLR.";

  double start_factor = 1.0 / 3;
  double end_factor = 1;
  config::Auto<std::int64_t> total_iters{5};

  static void describe(config::Describe<LinearLr>& options) {
    options
        .field("start_factor", &LinearLr::start_factor,
               "Fraction of the learning rate at the start.")
        .above(0)
        .at_most(1);
    options.field("end_factor", &LinearLr::end_factor, "Fraction of the learning rate at the end.")
        .at_least(0)
        .at_most(1);
    options
        .field("total_iters", &LinearLr::total_iters,
               "Intervals from start to end; auto: the whole run after warm-up.")
        .at_least(1);
    options.include<Warmup>();
  }
};

struct PolynomialLr : Warmup {
  static constexpr auto kSummary =
      "From the rate down to 0 as a power of what is left, as torch's PolynomialLR.";

  config::Auto<std::int64_t> total_iters{5};
  double power = 1;

  static void describe(config::Describe<PolynomialLr>& options) {
    options
        .field("total_iters", &PolynomialLr::total_iters,
               "Intervals to 0; auto: the whole run after warm-up.")
        .at_least(1);
    options.field("power", &PolynomialLr::power, "Power of the fraction that is left.").above(0);
    options.include<Warmup>();
  }
};

struct CosineAnnealingLr : Warmup {
  static constexpr auto kSummary =
      "Half a cosine from the rate down to eta_min, as torch's CosineAnnealingLR.";

  config::Auto<std::int64_t> t_max;
  double eta_min = 0;

  static void describe(config::Describe<CosineAnnealingLr>& options) {
    options
        .field("t_max", &CosineAnnealingLr::t_max,
               "Intervals to the bottom; auto: the whole run after warm-up.")
        .at_least(1);
    options.field("eta_min", &CosineAnnealingLr::eta_min, "The lowest rate.").at_least(0);
    options.include<Warmup>();
  }
};

struct CosineAnnealingWarmRestarts : Warmup {
  static constexpr auto kSummary =
      "Cosines that start anew (SGDR, Loshchilov & Hutter 2016), as torch's "
      "CosineAnnealingWarmRestarts.";

  std::int64_t t_0 = 1;
  std::int64_t t_mult = 1;
  double eta_min = 0;

  static void describe(config::Describe<CosineAnnealingWarmRestarts>& options) {
    options.field("t_0", &CosineAnnealingWarmRestarts::t_0, "Intervals to the first restart.")
        .required()
        .at_least(1)
        .example("10");
    options
        .field("t_mult", &CosineAnnealingWarmRestarts::t_mult,
               "Each cosine is this many times as long as the one before.")
        .at_least(1);
    options.field("eta_min", &CosineAnnealingWarmRestarts::eta_min, "The lowest rate.").at_least(0);
    options.include<Warmup>();
  }
};

enum class DecayShape { linear, cosine, one_minus_sqrt };
constexpr std::array<const char*, 3> enum_names(DecayShape) {
  return {"linear", "cosine", "one_minus_sqrt"};
}

struct Wsd : Warmup {
  static constexpr auto kSummary =
      "Warm-up, stable, decay: the rate holds, then falls at the end (Hu et al. 2024; Hägele et "
      "al. 2024).";

  double decay_fraction = 0.2;
  DecayShape decay = DecayShape::one_minus_sqrt;
  double end_factor = 0;

  static void describe(config::Describe<Wsd>& options) {
    options
        .field("decay_fraction", &Wsd::decay_fraction,
               "Share of the run after warm-up in which the rate falls.")
        .above(0)
        .at_most(1);
    options.field("decay", &Wsd::decay, "Curve of the fall.");
    options.field("end_factor", &Wsd::end_factor, "Fraction of the rate at the end.")
        .at_least(0)
        .at_most(1);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
