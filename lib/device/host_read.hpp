#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string_view>

namespace trainctl::device {

/// Returns the tensor on the device `to`: itself if it is there, else a copy. The host waits for a
/// copy from or to its memory, which counts as a host wait at `place`.
at::Tensor copy_to(const at::Tensor& tensor, at::Device to, std::string_view place);

/// Returns the tensor on the host, like copy_to().
inline at::Tensor copy_to_host(const at::Tensor& tensor, std::string_view place) {
  return copy_to(tensor, at::kCPU, place);
}

/// Returns the value of a tensor with one element, like copy_to_host().
template <class Value>
Value value_of(const at::Tensor& one, std::string_view place) {
  return copy_to_host(one, place).item<Value>();
}

}  // namespace trainctl::device
