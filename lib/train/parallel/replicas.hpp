#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

#include <memory>

namespace trainctl::train {

/// Gives all ranks rank 0's buffers: running statistics are of the samples that a rank saw.
void broadcast_buffers(const Session& session);

/// Gives all ranks rank 0's weights and buffers, and returns what exchanges the gradients, also in
/// steps that are captured if `options` has them. Throws Error(config) on all ranks if the
/// parameters or buffers of one differ from rank 0's, naming the first difference.
std::unique_ptr<dist::GradSync> synchronize(const Session& session, const Options& options);

}  // namespace trainctl::train
