#pragma once

#include "report/plan/communication_cost.hpp"
#include "report/plan/multi_rank_plan.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::study {

/// What is known of the data of a run.
struct EpochSamples {
  std::int64_t train = 0;           // drawn for an epoch
  std::optional<std::int64_t> val;  // absent: no validation
};

/// Steps, last batches and the share of each rank of a run of `ranks`: the arithmetic of
/// data::BatchPlan. What only the model tells is added by add_model().
report::FakeRanks plan_ranks(const spec::Experiment& experiment, const EpochSamples& samples,
                             int ranks);

/// Adds buckets and memory. A model that was measured as for one rank has its gradients in the
/// forward pass of several beside it: they are added to the activations.
void add_model(const spec::Experiment& experiment, const events::Measured& model,
               report::FakeRanks& fake);

/// Bytes of the optimizer's state on the rank of zero1 that has most of it: in proportion to the
/// parameters that it owns.
std::int64_t optimizer_share(const events::Measured& model, int ranks);

/// The gradient buckets of the model, in bytes, in the order of the exchange.
std::vector<std::int64_t> bucket_bytes(const spec::Experiment& experiment,
                                       const events::Measured& model);

/// The step that is exchanged, from one that was timed; nothing where it was not. An optimizer step
/// of several batches has as many forward and backward passes and one exchange.
std::optional<report::ExchangedStep> exchanged_step(const spec::Experiment& experiment,
                                                    const events::Measured& model);

/// The step of a run of the ranks that took `shared` together on this machine, from the step of one
/// rank `alone`: scaled to the run's batch and to all batches of an accumulation, which are
/// exchanged once. `averaging_s`: what local_sgd adds to a step, whose steps exchange nothing.
report::SharedStep shared_step(const events::Measured& alone, const events::Measured& shared,
                               std::int64_t accumulated, double averaging_s);

}  // namespace trainctl::study
