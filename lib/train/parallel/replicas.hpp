#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

#include <memory>

namespace trainctl::train {

/// Broadcasts the buffers of rank 0: running statistics depend on the samples of each rank.
void broadcast_buffers(const Session& session);

/// Broadcasts the weights and buffers of rank 0 and returns the synchronizer of gradients, which
/// also works in CUDA graphs if `options` enables them. Throws Error(config) on all ranks if the
/// parameters or buffers of a rank differ from rank 0's, naming the first difference.
std::unique_ptr<dist::GradSync> synchronize(const Session& session, const Options& options);

}  // namespace trainctl::train
