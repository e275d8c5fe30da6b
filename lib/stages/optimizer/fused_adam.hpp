#pragma once

#include "spec/optimizer/adam_base.hpp"
#include "stage/stages.hpp"

#include <memory>

namespace trainctl::stages {

/// l2: weight decay is added to the gradient (Adam); decoupled: it shrinks the weight (AdamW).
enum class Decay { l2, decoupled };

/// Adam or AdamW, as torch.optim's with fused=True.
std::unique_ptr<stage::Optimizer> make_fused_adam(const spec::optimizer::AdamBase& options,
                                                  const stage::OptimizerContext& context,
                                                  Decay decay);

}  // namespace trainctl::stages
