#pragma once

#include "report/plan/communication_cost.hpp"
#include "report/plan/multi_rank_plan.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::study {

/// The known sizes of a run's data.
struct EpochSamples {
  std::int64_t train = 0;           // samples drawn per epoch
  std::optional<std::int64_t> val;  // absent: no validation
};

/// Returns steps, last batches and the share of each rank for a run of `ranks`, with the arithmetic
/// of data::BatchPlan. Values that depend on the model are added by add_model().
report::FakeRanks plan_ranks(const spec::Experiment& experiment, const EpochSamples& samples,
                             int ranks);

/// Adds buckets and memory. A model that was measured on one rank holds its gradients during the
/// forward pass when there are several ranks, so they are added to the activations.
void add_model(const spec::Experiment& experiment, const events::Measured& model,
               report::FakeRanks& fake);

/// Returns the bytes of optimizer state on the ZeRO-1 rank with the most state, in proportion to
/// the parameters that it owns.
std::int64_t optimizer_share(const events::Measured& model, int ranks);

/// Returns the gradient buckets of the model, in bytes, in the order of the all-reduce.
std::vector<std::int64_t> bucket_bytes(const spec::Experiment& experiment,
                                       const events::Measured& model);

/// Returns the step with its gradient exchange, from a timed step; nullopt if the step was not
/// timed. An optimizer step of several batches has that many forward and backward passes and one
/// exchange.
std::optional<report::SyncedStep> synced_step(const spec::Experiment& experiment,
                                              const events::Measured& model);

/// Returns the step time of a run whose ranks took `shared` together on this machine, given the
/// step of one rank `alone`: scaled to the run's batch and to all batches of an accumulation, which
/// share one exchange. `averaging_s` is the time that local_sgd adds to a step; its steps exchange
/// no gradients.
report::SharedStep shared_step(const events::Measured& alone, const events::Measured& shared,
                               std::int64_t accumulated, double averaging_s);

}  // namespace trainctl::study
