#pragma once

#include "config/describe.hpp"

#include <array>
#include <cstdint>

namespace trainctl::spec::scheduler {

enum class Interval { epoch, step };
constexpr std::array<const char*, 2> enum_names(Interval) { return {"epoch", "step"}; }

/// What every scheduler has: a linear warm-up in front, counted in the scheduler's own interval.
struct Warmup {
  std::int64_t warmup = 0;
  double warmup_start_factor = 0.1;
  Interval interval = Interval::epoch;

  static void describe(config::Describe<Warmup>& options) {
    options.field("warmup", &Warmup::warmup, "Length of a linear warm-up, in `interval`s; 0: none.")
        .at_least(0);
    options
        .field("warmup_start_factor", &Warmup::warmup_start_factor,
               "Fraction of the rate at which warm-up starts.")
        .above(0)
        .at_most(1);
    options.field("interval", &Warmup::interval,
                  "What the scheduler counts: epochs or optimizer steps.");
  }
};

}  // namespace trainctl::spec::scheduler
