#pragma once

#include "stage/stages.hpp"
#include "train/debug/memory_report.hpp"
#include "train/step/forward.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// The largest tensors that the layers of a model return for a batch of `rows`, one a layer and at
/// most `count`, the largest first: seen in a forward pass of the few rows of `inputs`, without
/// gradients and in evaluation mode, and taken to grow with the rows. Views are no tensors of their
/// own, and what is less than a hundredth of the largest is left out.
std::vector<LayerOutput> largest_outputs(stage::Model& model, const at::Tensor& inputs,
                                         const ForwardOptions& options, std::int64_t rows,
                                         std::size_t count = 5);

}  // namespace trainctl::train
