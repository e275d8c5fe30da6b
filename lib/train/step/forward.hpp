#pragma once

#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::train {

/// In what form a model computes.
struct ForwardOptions {
  spec::Precision precision = spec::Precision::full;
  bool channels_last = false;
};

/// `auto` counts as off: a worker puts its choice in its place first.
ForwardOptions forward_options(const spec::Trainer& trainer);

/// The model's logits in float32. In a mixed precision the model runs under autocast, as
/// torch.autocast has it: matrix products and convolutions in 16 bits, sums and norms in 32; the
/// loss that follows sees 32 bits. Images are laid out channels-last where the options say so.
at::Tensor forward(stage::Model& model, const at::Tensor& inputs, const ForwardOptions& options);

/// Lays the parameters of four dimensions out channels-last; before optimizer and reducer see them.
void lay_out_channels_last(const stage::Model& model);

}  // namespace trainctl::train
