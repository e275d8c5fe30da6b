#pragma once

#include "events/records.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// Counts NaN and infinite elements, and computes range and mean of the others. Synchronizes with
/// the device.
events::TensorSummary summary_of(std::string name, const at::Tensor& tensor);

inline bool is_bad(const events::TensorSummary& summary) {
  return summary.nan_count + summary.inf_count > 0;
}

/// Moves the summaries with non-finite values to the front, otherwise keeps the order, and returns
/// the first `most`.
std::vector<events::TensorSummary> offending_first(std::vector<events::TensorSummary> summaries,
                                                   std::size_t most);

/// Returns whether no element is NaN or infinite. Reads a dense float32 tensor on a CPU once, at
/// about memory bandwidth; other tensors go through ATen. Synchronizes with a GPU.
bool all_finite(const at::Tensor& tensor);
/// Returns whether all tensors are finite.
bool all_finite(at::TensorList tensors);
/// The same for the bytes of a tensor with the dtype "F32", as in a file; true for integers.
bool all_finite(std::span<const std::byte> bytes, std::string_view dtype);

}  // namespace trainctl::train
