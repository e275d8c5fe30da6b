#include "stages/model/blocks/nonlinearity.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/silu.h>

#include <utility>

namespace trainctl::stages {

at::Tensor apply(Nonlinearity nonlinearity, at::Tensor x) {
  // The gradients of hardswish and silu need x: autograd would copy it before overwriting it.
  const bool needs_x = at::GradMode::is_enabled();
  switch (nonlinearity) {
    case Nonlinearity::none: return x;
    case Nonlinearity::relu: return at::relu_(x);
    case Nonlinearity::relu6: return at::relu6_(x);
    case Nonlinearity::hardswish: return needs_x ? at::hardswish(x) : at::hardswish_(x);
    case Nonlinearity::silu: return needs_x ? at::silu(x) : at::silu_(x);
  }
  ASSERT(false);
}

}  // namespace trainctl::stages
