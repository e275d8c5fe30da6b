#include "engine/layout.hpp"

#include "engine/threads.hpp"
#include "train/flops.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <memory>

namespace trainctl::engine {
namespace {

bool takes_images(const stage::ModelContext& model) {
  return model.kind.inputs == spec::Inputs::images && model.input_shape.size() == 3;
}

/// Counts on the CPU, whatever the device: the shapes are the same.
train::LayoutFacts count_operations(const LayoutContext& context, train::LayoutFacts facts) {
  const at::NoGradGuard guard;
  const std::unique_ptr<stage::Model> model =
      context.catalogue.models.build(context.experiment.model, context.model);
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor inputs = made_up_batch(context.model, 1, at::kCPU).inputs;
  const train::FlopCounter counter;
  (void)model->forward(inputs);
  facts.flops = counter.count();
  facts.convolution_flops = counter.image_convolutions();
  return facts;
}

train::LayoutChoice choose(const LayoutContext& context) {
  if (context.before) return {*context.before, "as the run began"};
  if (!takes_images(context.model)) return {false, "the samples are not images"};
  if (context.experiment.model.type == "torchscript")
    return {false, "a TorchScript model keeps its own layout"};
  const train::LayoutFacts facts{.on_cpu = context.device.is_cpu(),
                                 .precision = context.experiment.trainer.precision};
  if (!train::gains_by_channels_last(facts)) return train::choose_layout(facts);
  try {
    return train::choose_layout(count_operations(context, facts));
  } catch (...) {  // The same failure in training is reported with its step and its cause.
    return {false, "the model does not take a made-up sample"};
  }
}

}  // namespace

train::LayoutChoice choose_layout(const LayoutContext& context) {
  const auto& asked = context.experiment.trainer.channels_last;
  return asked.is_auto() ? choose(context) : train::LayoutChoice{*asked.value, "asked"};
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
