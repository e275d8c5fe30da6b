#include "stages/optimizer/dampened_sgd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>

namespace trainctl::stages {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Of each gradient, what goes into the momentum: all of it in the first step.
Tensors shares_of(const ParameterGroup& group, const at::Tensor& started, double dampening) {
  at::Tensor shares = started.to(group.parameters().front().scalar_type());
  shares.mul_(-dampening).add_(1);
  const Tensors each = shares.unbind();
  Tensors active;
  for (const std::size_t member : group.active()) active.push_back(each[member]);
  return active;
}

void mark(const ParameterGroup& group, const at::Tensor& started) {
  if (group.all_active()) {
    started.fill_(true);
    return;
  }
  for (const std::size_t member : group.active())
    started.select(0, static_cast<std::int64_t>(member)).fill_(true);
}

}  // namespace

void dampened_step(const ParameterGroup& group, const at::Tensor& started,
                   const Dampening& dampening) {
  const at::NoGradGuard guard;
  const Tensors gradients =
      group.weight_decay() > 0
          ? at::_foreach_add(group.gradients(), group.parameters(), group.weight_decay())
          : group.gradients();
  const Tensors& buffers = group.state(0);
  at::_foreach_mul_(buffers, dampening.momentum);
  at::_foreach_add_(buffers,
                    at::_foreach_mul(gradients, shares_of(group, started, dampening.dampening)));
  at::_foreach_sub_(group.parameters(), at::_foreach_mul(buffers, group.lr));
  mark(group, started);
}

}  // namespace trainctl::stages
