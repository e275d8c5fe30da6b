#pragma once

#include "report/compare/bench.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

/// What a few steps of one batch size told.
struct BatchTrial {
  double samples_per_s = 0;
  double memory_bytes = 0;  // of all ranks at their peak; 0: not known
  std::int64_t most = 0;    // the largest size with which an epoch still has so many steps
};
using BatchResult = std::variant<BatchTrial, report::TrialFailure>;
/// Trains a few steps with so many samples a step on each device, in fresh processes.
using TryBatch = std::function<BatchResult(std::int64_t batch)>;

struct BatchChoice {
  std::int64_t batch = 0;
  std::string why;
  std::optional<report::TrialFailure> failure;  // no size could be tried, or a trial was stopped
};

/// Doubles the batch from the smallest size until it does not fit (exit code 11, or killed), would
/// take more than `memory_bytes` (0: no bound), is hardly faster twice in a row, or the data ends.
/// The choice is the last one that was worth it.
BatchChoice choose_batch(double memory_bytes, const TryBatch& try_batch);

/// What cuts an experiment down to a trial of that size.
std::vector<std::string> batch_trial(std::int64_t batch);

/// Runs `request`, an experiment with the overrides of batch_trial().
BatchResult run_batch_trial(const RunRequest& request, const Clock& clock);

/// What the trials may take of the host's memory; 0 where they compute on a GPU, which says itself
/// that it is full.
double batch_budget(const spec::Trainer& trainer);

}  // namespace trainctl::study
