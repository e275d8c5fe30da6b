#pragma once

#include "events/records.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace trainctl::train {

/// Counts what is not finite, and tells the range and the mean of the rest. Waits for the device.
events::TensorSummary summary_of(std::string name, const at::Tensor& tensor);

inline bool is_bad(const events::TensorSummary& summary) {
  return summary.nan_count + summary.inf_count > 0;
}

/// Those with values that are not finite first, each part in its order; `most` of them.
std::vector<events::TensorSummary> offending_first(std::vector<events::TensorSummary> summaries,
                                                   std::size_t most);

/// Whether no element is NaN or infinite. Float32 on a CPU is read once, about as fast as the
/// memory gives it, in any order of dimensions without gaps; everything else goes through ATen. On
/// a GPU it waits for the device.
bool all_finite(const at::Tensor& tensor);
bool all_finite(at::TensorList tensors);

}  // namespace trainctl::train
