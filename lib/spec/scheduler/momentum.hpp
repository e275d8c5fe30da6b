#pragma once

#include "config/schema/schema.hpp"

#include <optional>

namespace trainctl::spec {

/// The momentum at which a scheduler that cycles it starts, or one in a sequence; nothing where
/// none does.
std::optional<double> scheduled_momentum(const config::Stage& stage);

/// The optimizer that runs under the scheduler: one whose own momentum is 0 gets that of a
/// scheduler which cycles it, as PyTorch's OneCycleLR sets it, so that it keeps the buffers.
config::Stage with_scheduled_momentum(const config::Stage& stage,
                                      const config::Stage& scheduler_stage);

}  // namespace trainctl::spec
