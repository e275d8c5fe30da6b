#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace trainctl::stage {

using Segment = std::function<at::Tensor(const at::Tensor&)>;

/// segment(x), whose activations are not kept but computed again in the backward pass (Chen et al.
/// 2016), as torch.utils.checkpoint with use_reentrant=True: same gradients, same random draws,
/// same autocast. Where x needs no gradient the segment runs as it is. The segment must live until
/// the backward pass has ended.
at::Tensor checkpoint(Segment segment, const at::Tensor& x);

/// Whether a segment runs for the second time: what it counts, as running statistics, is counted.
bool is_recomputing();

}  // namespace trainctl::stage
