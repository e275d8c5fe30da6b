#pragma once

#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// What was measured at the start of a run.
struct LoadingFigures {
  double batch_s = 0;  // to make a batch on one thread
  double spread = 1;   // of that time from batch to batch: its 99th percentile over its mean
  double step_s = 0;  // of the training; 0: nothing trains, batches are wanted as fast as they come
};

/// What one process may use.
struct LoadingLimits {
  int cores = 1;
  bool trains_on_them = false;   // the cores are the device; else one is left to launch the work
  std::uint64_t ring_bytes = 0;  // of all slots together
  bool helped = false;  // the consumer makes batches, too, rather than wait, on a core left to it
};

/// How many threads load, and how many batches ahead.
struct LoadingChoice {
  int num_workers = 0;
  int prefetch_factor = kUsualPrefetch;
  std::string why = "asked";  // "probe: a batch takes 71.2 ms to make and a step 20.1 ms; ..."

  static constexpr int kUsualPrefetch = 2;
  static constexpr int kMostPrefetch = 4;  // that auto takes
};

/// Most threads that `auto` takes.
int most_auto_workers(const LoadingLimits& limits);

/// Decides what the options leave to `auto`. Threads: as many as make batches 1.15 times as fast as
/// steps use them, within the cores; none where making batches takes a twentieth of the time or
/// less, where a batch is made sooner than it is handed to another thread, or where the ring may
/// hold one batch only. Batches ahead: so many that a slow one is ready in time, within the bytes
/// of the ring. A batch never depends on either.
LoadingChoice choose_loading(const spec::Loader& wish, const LoadingFigures& figures,
                             const LoadingLimits& limits, std::uint64_t slot_bytes);

/// So many threads beside steps of `least_step_s` or longer.
struct AutoWorkers {
  double least_step_s = 0;
  int num_workers = 0;
};
/// The threads that choose_loading() takes by the step, from long steps to short ones.
std::vector<AutoWorkers> auto_workers_by_step(double batch_s, const LoadingLimits& limits,
                                              std::uint64_t slot_bytes);

}  // namespace trainctl::data
