#pragma once

#include "base/clock.hpp"

#include <functional>
#include <string>

namespace trainctl::train {

struct ThreadChoice {
  int threads = 1;
  std::string why;    // "probe: 2 threads take 1.70x of 1"
  double step_s = 0;  // of a step with so many threads; 0: not measured
  double taken = 0;   // share of the cores that others took meanwhile; 0: the machine was quiet
};

struct ThreadProbe {
  int most = 2;                          // threads to compare with one
  std::function<void()> step;            // one step of a throwaway model
  std::function<void(int)> set_threads;  // at::set_num_threads
};

/// Times steps with one and with `most` threads, in turns, for well under a second where a step is
/// short, and leaves the faster number set. More threads only where the median is at least 1.15
/// times faster: beside other work they lose more than they win.
ThreadChoice probe_threads(const ThreadProbe& probe, const Clock& clock);

/// Seconds of a step, the median of a few after two for warming up: half a second, or two long
/// steps.
double time_steps(const std::function<void()>& step, const Clock& clock);

}  // namespace trainctl::train
