#include "stages/kernel_calls.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cstdint>

namespace trainctl::stages {

bool has_kernels(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return device::kernels_built() && x.is_cuda() && x.numel() > 0 &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

device::Element element_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat: return device::Element::float32;
    case at::kBFloat16: return device::Element::bfloat16;
    case at::kHalf: return device::Element::float16;
    default: ASSERT(false);
  }
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % device::kPackBytes == 0;
}

at::Tensor make_aligned(const at::Tensor& x) {
  at::Tensor dense = x.contiguous();
  return is_aligned(dense) ? dense : dense.clone();
}

void check_first_derivative() {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "the fused kernels have no second derivative\nhint: remove create_graph");
}

void check_launch(const char* failure, const char* kernel) {
  if (failure != nullptr) device::throw_kernel_error();
  ENSURE(resource, failure == nullptr, "cannot run the kernel {}: {}\nhint: run 'trainctl doctor'",
         kernel, failure == nullptr ? "" : failure);
}

}  // namespace trainctl::stages
