#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace trainctl::stage {

using Segment = std::function<at::Tensor(const at::Tensor&)>;

/// Returns segment(x) and recomputes its activations in the backward pass instead of keeping them
/// (Chen et al. 2016), like torch.utils.checkpoint with use_reentrant=True: the gradients, the
/// random draws and autocast are the same. If x needs no gradient, this is a plain call of the
/// segment. The segment must live until the backward pass has ended.
at::Tensor checkpoint(Segment segment, const at::Tensor& x);

/// Returns whether this thread recomputes a segment. Layers must not update running statistics
/// then: the first pass has done so.
bool is_recomputing();

}  // namespace trainctl::stage
