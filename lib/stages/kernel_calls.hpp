#pragma once

#include "device/row_math.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <initializer_list>
#include <type_traits>
#include <vector>

// What the callers of the fused kernels share.

namespace trainctl::stages {

/// Returns whether the kernels of this build can compute with the tensor: on a GPU, not
/// empty, of float32, bfloat16 or float16.
bool has_kernels(const at::Tensor& x);

/// Returns the element type of a float32, bfloat16 or float16 tensor.
device::Element element_of(const at::Tensor& x);

/// Returns whether the first element is aligned to the widest load.
bool is_aligned(const at::Tensor& x);

/// Returns the tensor with contiguous memory, aligned to the widest load.
at::Tensor make_aligned(const at::Tensor& x);

/// Throws in a backward pass whose result would be differentiated again (create_graph).
void check_first_derivative();

/// Throws if `failure`, the result of a launch, is not null: the error of an earlier kernel, or
/// Error(resource).
void check_launch(const char* failure, const char* kernel);

/// Returns call(), a tensor or a list of tensors, recorded like the dispatcher does for an
/// operator, so that profilers show it. It has the sequence number of its autograd node, so that
/// the backward pass is attributed to it.
template <class Call>
auto record_operator(const char* name, std::initializer_list<at::Tensor> inputs, Call call) {
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (!record.isActive()) return call();
  const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  record.before(name, c10::ArrayRef<const c10::IValue>(values.data(), values.size()),
                static_cast<std::int64_t>(at::sequence_number::peek()));
  auto result = call();
  if (!record.needsOutputs()) return result;
  if constexpr (std::is_same_v<decltype(result), at::Tensor>) {
    record.setOutputs(std::vector<c10::IValue>{result});
  } else {
    record.setOutputs(std::vector<c10::IValue>(result.begin(), result.end()));
  }
  return result;
}

}  // namespace trainctl::stages
