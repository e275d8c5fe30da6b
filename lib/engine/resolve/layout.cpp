#include "engine/resolve/layout.hpp"

#include "base/clock.hpp"
#include "base/machine/core_use.hpp"
#include "engine/resolve/step_probe.hpp"
#include "train/measure/resource_counters.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

namespace trainctl::engine {
namespace {

bool takes_images(const stage::ModelContext& model) {
  return model.kind.inputs == spec::Inputs::images && model.input_shape.size() == 3;
}

/// Counts on the CPU, whatever the device: the shapes are the same.
train::LayoutFacts count_operations(const LayoutContext& context) {
  const at::NoGradGuard guard;
  const std::unique_ptr<stage::Model> model =
      context.catalogue.models.build(context.experiment.model, context.model);
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor inputs = made_up_batch(context.model, 1, at::kCPU).inputs;
  const train::FlopCounter counter;
  (void)model->forward(inputs);
  return {counter.count(), counter.image_convolutions()};
}

/// A step of a throwaway model with so many rows.
std::function<void()> step_in(const LayoutContext& context, bool channels_last, std::int64_t rows) {
  spec::Experiment experiment = context.experiment;
  experiment.trainer.channels_last.value = channels_last;
  experiment.loader.batch_size = rows;
  return throwaway_step({experiment, context.catalogue, context.model, context.device});
}

/// Rows of the run's batch that a step of about 0.1 seconds holds: of long steps a part tells, too.
std::int64_t probed_rows(const LayoutContext& context) {
  constexpr double kStepS = 0.1;
  constexpr std::int64_t kFewRows = 8;
  const std::int64_t batch = context.experiment.loader.batch_size;
  if (batch <= kFewRows) return batch;
  const std::function<void()> few = step_in(context, false, kFewRows);
  few();
  const double begin = steady_clock().now();
  few();
  const double row_s = std::max(steady_clock().now() - begin, 1e-9) / kFewRows;
  return std::clamp(static_cast<std::int64_t>(kStepS / row_s), kFewRows, batch);
}

/// Probes again if other processes took the cores meanwhile. A choice on a busy machine would be
/// chance, and part of the run for as long as it lasts: the format stays as it is instead.
train::LayoutChoice probe_when_quiet(const train::LayoutProbe& probe) {
  constexpr int kMostProbes = 3;
  double taken = 0;
  for (int i = 0; i < kMostProbes; ++i) {
    const CoreUseMeter others;
    train::LayoutChoice choice = train::probe_layout(probe, steady_clock());
    taken = others.taken();
    if (taken == 0) return choice;
  }
  return {false,
          fmt::format("probe: too noisy to tell, others took {:.0f} % of the cores", 100 * taken)};
}

train::LayoutChoice probe(const LayoutContext& context) {
  if (context.experiment.trainer.deterministic) return {false, "deterministic"};
  if (!context.trains) return {false, "a CPU, and nothing is trained"};
  if (count_operations(context).convolution_flops <= 0) return {false, train::kNoConvolutions};
  const std::int64_t rows = probed_rows(context);
  return probe_when_quiet({step_in(context, false, rows), step_in(context, true, rows)});
}

train::LayoutChoice choose(const LayoutContext& context) {
  if (context.before) return {*context.before, "as the run began"};
  if (!takes_images(context.model)) return {false, "the samples are not images"};
  if (context.experiment.model.type == "torchscript")
    return {false, "a TorchScript model keeps its own layout"};
  if (context.device.is_cpu()) return probe(context);
  if (!train::gains_by_channels_last(context.experiment.trainer.precision))
    return {false, "a GPU gains by it only in 16 bits"};
  return train::choose_layout(count_operations(context));
}

/// The same failure in training is reported with its step and its cause.
train::LayoutChoice choose_if_it_computes(const LayoutContext& context) {
  try {
    return choose(context);
  } catch (...) {
    return {false, "the model could not be tried with made-up samples"};
  }
}

}  // namespace

train::LayoutChoice choose_layout(const LayoutContext& context) {
  const auto& asked = context.experiment.trainer.channels_last;
  return asked.is_auto() ? choose_if_it_computes(context)
                         : train::LayoutChoice{*asked.value, "asked"};
}

train::LayoutChoice choose_layout(const LayoutContext& context, dist::Communicator& communicator) {
  if (!context.experiment.trainer.channels_last.is_auto()) return choose_layout(context);
  train::LayoutChoice choice{false, "rank 0's choice"};
  if (communicator.place().rank == 0) choice = choose_layout(context);
  const at::Tensor chosen = at::full({1}, choice.channels_last ? 1 : 0, at::kInt);
  communicator.broadcast(chosen, "broadcast of the memory format");
  choice.channels_last = *chosen.const_data_ptr<std::int32_t>() != 0;
  return choice;
}

}  // namespace trainctl::engine
