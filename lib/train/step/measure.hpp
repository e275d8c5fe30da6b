#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace trainctl::train {

/// Adds the rows to every metric, but those of the label that the loss ignores. Waits for the
/// device where there is such a label.
void measure(const std::vector<std::unique_ptr<stage::Metric>>& metrics, const stage::Loss& loss,
             const at::Tensor& logits, const at::Tensor& targets);

}  // namespace trainctl::train
