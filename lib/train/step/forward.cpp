#include "train/step/forward.hpp"

#include "stage/autocast.hpp"

#include <ATen/core/grad_mode.h>

namespace trainctl::train {
ForwardOptions forward_options(const spec::Trainer& trainer) {
  return {trainer.precision, trainer.channels_last.value_or(false)};
}

at::Tensor forward(stage::Model& model, const at::Tensor& inputs, const ForwardOptions& options) {
  const bool reorders = options.channels_last && inputs.dim() == 4;
  const at::Tensor x = reorders ? inputs.contiguous(at::MemoryFormat::ChannelsLast) : inputs;
  if (options.precision == spec::Precision::full) return model.forward(x);
  const bool bf16 = options.precision == spec::Precision::bf16_mixed;
  const stage::Autocast scope(x.device().type(), bf16 ? at::kBFloat16 : at::kHalf);
  return model.forward(x).to(at::kFloat);
}

void lay_out_channels_last(const stage::Model& model) {
  const at::NoGradGuard guard;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace trainctl::train
