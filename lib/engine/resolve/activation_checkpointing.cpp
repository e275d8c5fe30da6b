#include "engine/resolve/activation_checkpointing.hpp"

#include "base/machine/machine.hpp"
#include "engine/failure.hpp"
#include "engine/resolve/model_meter.hpp"
#include "train/measure/backends.hpp"
#include "train/state/weights.hpp"

#include <ATen/ops/full.h>

#include <algorithm>
#include <exception>

namespace trainctl::engine {
namespace {

using spec::ActivationCheckpointing;

constexpr std::int64_t kFewRows = 2;  // batch normalization needs two

std::int64_t free_bytes(const RecomputeContext& context) {
  if (const auto bytes = device::cuda_available_memory(context.setup.device)) return *bytes;
  const auto ranks = static_cast<std::uint64_t>(context.ranks_here);
  const std::uint64_t share = available_memory() / ranks;
  return static_cast<std::int64_t>(share - std::min(context.still_taken, share));
}

/// The full batch may not fit, so its cost is extrapolated from two small ones.
StepCost cost_of_batch(ModelMeter& meter, std::int64_t rows) {
  if (rows <= 2 * kFewRows) return meter.step(rows);
  const train::BenchmarkOff few_steps;  // these batch sizes do not occur in training
  const StepCost less = meter.stacked_step(kFewRows);
  return meter.extrapolated(less, meter.stacked_step(2 * kFewRows), rows);
}

/// Returns the bytes that are allocated permanently, including averaged and best weights.
std::int64_t kept_bytes(const KeptBytes& kept, const spec::Experiment& experiment,
                        at::Device device) {
  std::int64_t copies = train::averaging_of(experiment.trainer) ? 1 : 0;
  if (device.is_cpu() && experiment.checkpoint.save_top_k != 0) ++copies;
  return kept.weights * (1 + copies) + kept.gradients + kept.optimizer;
}

train::RecomputeChoice measured(const RecomputeContext& context, std::int64_t free) {
  const spec::Experiment& experiment = context.setup.experiment;
  data::Pipeline pipeline = context.train;
  pipeline.batch_transforms.clear();  // they mix batches and need more than one sample
  ModelMeter meter(context.setup, pipeline);
  if (!meter.model().has_blocks()) return {false, "the model has no blocks"};
  const StepCost cost = cost_of_batch(meter, experiment.loader.batch_size);
  const std::int64_t kept = kept_bytes(meter.kept(), experiment, context.setup.device);
  return train::choose_recompute(
      {.activations = cost.activation_bytes, .rest = kept + cost.batch_bytes, .free = free});
}

train::RecomputeChoice decide(const RecomputeContext& context, std::int64_t free) {
  try {
    return measured(context, free);
  } catch (...) {
    if (refused_memory(std::current_exception()))
      return {true, "even a step with few samples ran out of memory, so blocks are recomputed"};
    if (as_error(std::current_exception()).kind() != ErrorKind::diverged) throw;
    return {false, "no step was measured, because the loss of synthetic samples is not finite"};
  }
}

}  // namespace

train::RecomputeChoice decide_recompute(const RecomputeContext& context,
                                        dist::Communicator& communicator) {
  const ActivationCheckpointing asked = context.setup.experiment.trainer.activation_checkpointing;
  if (asked != ActivationCheckpointing::automatic)
    return {asked == ActivationCheckpointing::blocks, ""};
  train::RecomputeChoice choice{false, "chosen by rank 0"};
  const std::int64_t free = train::least_of_ranks(free_bytes(context), communicator);
  if (communicator.rank_info().rank == 0) choice = decide(context, free);
  const at::Tensor recomputes = at::full({1}, choice.recomputes ? 1 : 0, at::kInt);
  communicator.broadcast(recomputes, "broadcast of whether blocks are recomputed");
  choice.recomputes = *recomputes.const_data_ptr<std::int32_t>() != 0;
  return choice;
}

ActivationCheckpointing mode_of(const train::RecomputeChoice& choice) {
  return choice.recomputes ? ActivationCheckpointing::blocks : ActivationCheckpointing::off;
}

}  // namespace trainctl::engine
