#pragma once

#include "report/diagnosis/bottleneck.hpp"

// The tests of verdicts use these times and machines.

namespace timing_fixtures {

using namespace trainctl;
using namespace trainctl::report;

/// Returns a run of 10 s in which one part takes `seconds`, and the forward pass the rest.
inline events::Timing timing(double events::Timing::*part, double seconds) {
  events::Timing timing{.wall_s = 10, .forward_s = 10 - seconds, .samples = 6400};
  timing.*part += seconds;
  timing.cpu_percent = 100;
  return timing;
}

inline const events::Timing kStarved = timing(&events::Timing::data_wait_s, 8);
inline const events::Timing kAtWork = timing(&events::Timing::backward_s, 5);

/// Returns the context of a quiet machine with four cores.
inline BottleneckContext context() {
  return {.num_workers = 2,
          .batch_size = 64,
          .train_samples = 60000,
          .max_epochs = 10,
          .levers = {.cpu_cores = 4,
                     .cache_mode = "none",
                     .cache_modes = {"none", "encoded", "decoded", "device"},
                     .threads_probed = true},
          .num_threads = 1,
          .usage = events::Usage{.span_s = 10,
                                 .cores = 4,
                                 .cpu_stalled = 0.02,
                                 .io_stalled = 0.0,
                                 .memory_stalled = 0.0,
                                 .loader_threads = 2,
                                 .loader_cores = 1.9,
                                 .memory_taken = 0.3}};
}

}  // namespace timing_fixtures
