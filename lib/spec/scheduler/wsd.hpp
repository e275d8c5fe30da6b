#pragma once

#include "spec/scheduler/warmup.hpp"

#include <array>

namespace trainctl::spec::scheduler {

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
