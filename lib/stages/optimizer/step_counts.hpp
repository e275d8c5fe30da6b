#pragma once

#include "stages/optimizer/fused.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace trainctl::stages {

/// Steps taken by each parameter of a group: one tensor, and a 0-d view of it for each parameter.
class StepCounts {
 public:
  explicit StepCounts(const ParameterGroup& group)
      : all_(at::zeros({static_cast<std::int64_t>(group.size())},
                       at::TensorOptions(at::kFloat).device(group.device()))),
        each_(all_.unbind()) {}

  /// Counts this step for the parameters that take part, and returns their counts.
  at::TensorList advance(const ParameterGroup& group) {
    if (group.all_active()) {
      all_.add_(1);
      return each_;
    }
    active_.clear();
    for (const std::size_t member : group.active()) active_.push_back(each_[member]);
    at::_foreach_add_(active_, 1);
    return active_;
  }

  /// "fc1.weight.step" of each parameter.
  void add_state(const ParameterGroup& group, std::vector<stage::NamedTensor>& all) const {
    for (std::size_t i = 0; i < each_.size(); ++i)
      all.push_back({group.name(i) + ".step", each_[i]});
  }

  /// Undoes the last count where `found_inf` says that nothing was updated.
  void take_back(const ParameterGroup& group, const at::Tensor& found_inf) {
    if (group.all_active()) {
      all_.sub_(found_inf);
      return;
    }
    for (at::Tensor& count : active_) count.sub_(found_inf.squeeze());
  }

 private:
  at::Tensor all_;
  std::vector<at::Tensor> each_;
  std::vector<at::Tensor> active_;
};

/// The numbers of steps as one float64 tensor [parameters]. What is computed from them loses digits
/// in float32: 1 - 0.999 has an error of 1e-5 there, and PyTorch computes it in double.
inline at::Tensor in_double(at::TensorList steps) { return at::stack(steps).to(at::kDouble); }

/// 1 - beta^steps, in float64.
inline at::Tensor bias_correction(double beta, const at::Tensor& steps) {
  return at::pow(beta, steps).neg_().add_(1);
}

/// One scalar for each parameter of the group, in the number format of the parameters.
inline std::vector<at::Tensor> scalars_for(const ParameterGroup& group, const at::Tensor& values) {
  return values.to(group.parameters().front().scalar_type()).unbind();
}

}  // namespace trainctl::stages
