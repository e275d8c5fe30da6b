#pragma once

#include "stage/stages.hpp"
#include "stage/tensor_backup.hpp"
#include "stages/optimizer/parameter_rules.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::stages {

/// Parameters of one device, dtype and setting: what a fused kernel takes in one call. The lists of
/// those that have a gradient are kept between steps and mended where something changed, so that a
/// step allocates nothing; the gradients themselves are not.
class ParameterGroup {
 public:
  /// `members` share device, dtype and setting. The tensors kept for each are zero at first.
  ParameterGroup(std::vector<stage::NamedTensor> members, ParameterSetting setting);

  /// Every member's state of this kind, whether it has a gradient or not.
  void fill_state(std::size_t kind, double value);

  /// Brings the lists up to date. Throws where a gradient is laid out otherwise than its parameter:
  /// the CPU kernels would not notice and update the wrong elements.
  void collect();
  /// Lets go of the gradients: whoever clears them gets their memory back.
  void release();

  [[nodiscard]] bool all_active() const { return active_.size() == members_.size(); }
  [[nodiscard]] bool none_active() const { return active_.empty(); }
  /// Of parameters with a gradient; index into the members.
  [[nodiscard]] const std::vector<std::size_t>& active() const { return active_; }
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<at::Tensor>& gradients() const { return gradients_; }
  [[nodiscard]] const std::vector<at::Tensor>& state(std::size_t kind) const {
    return active_state_[kind];
  }
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] at::Device device() const { return members_.front().tensor.device(); }

  [[nodiscard]] std::size_t state_kinds() const { return state_.size(); }
  /// Whether it has a gradient or not.
  [[nodiscard]] const at::Tensor& parameter(std::size_t member) const {
    return members_[member].tensor;
  }
  [[nodiscard]] const std::string& name(std::size_t member) const { return members_[member].name; }
  /// Every member's state, whether it has a gradient or not: "fc1.weight.exp_avg".
  void add_state(std::vector<stage::NamedTensor>& all) const;
  [[nodiscard]] double weight_decay() const { return setting_.weight_decay; }

  /// The learning rate as the kernels read it: on the parameters' device.
  at::Tensor lr;
  /// The group's own rate is a multiple of the optimizer's.
  void set_lr(double lr_of_all);

 private:
  void rebuild();

  std::vector<stage::NamedTensor> members_;
  ParameterSetting setting_;
  std::vector<std::vector<at::Tensor>> state_;  // [kind][member]
  std::vector<std::size_t> active_;
  std::vector<at::Tensor> parameters_, gradients_;
  std::vector<std::vector<at::Tensor>> active_state_;
};

/// What the optimizers on fused kernels share: groups, learning rate, clearing of gradients.
class FusedOptimizer : public stage::Optimizer {
 public:
  /// `state`: kept for each parameter.
  FusedOptimizer(const stage::OptimizerContext& context, const spec::optimizer::Base& options,
                 const StateNames& state);
  /// With a setting for each parameter of the context.
  FusedOptimizer(const stage::OptimizerContext& context, double lr,
                 const std::vector<ParameterSetting>& settings);

  void step() final;
  /// On the CPU a look at the flag is free; elsewhere step_by_selection(). Those whose kernels take
  /// the flag hand it to them.
  void step_unless(const at::Tensor& found_inf) override;
  [[nodiscard]] bool skips_on_device() const final { return true; }
  /// Takes the step, and puts parameters and state back where `found_inf` is not 0: for that it
  /// keeps copies of them. Without a look at the flag, on any device.
  void step_by_selection(const at::Tensor& found_inf);
  /// Gradients become zero in place: they may be views into a reducer's bucket.
  void zero_grad() override;
  void set_lr(double lr) override;
  [[nodiscard]] double initial_lr() const override { return initial_lr_; }
  [[nodiscard]] bool is_repeatable() const override { return true; }
  void set_momentum(double momentum) final;
  [[nodiscard]] std::vector<stage::NamedTensor> state() const final;
  void serialize(StateArchive& archive) final;

 protected:
  virtual void take_step() = 0;
  virtual void use_momentum(double /*momentum*/) {}
  /// Adds what is kept for the members of a group beside the group's own tensors.
  virtual void add_state_of(std::size_t /*group*/, std::vector<stage::NamedTensor>& /*all*/) const {
  }
  std::vector<ParameterGroup>& groups() { return groups_; }
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> parameters_and_state() const;

  std::vector<ParameterGroup> groups_;
  double initial_lr_;
  double lr_;
  std::optional<double> momentum_;          // as a scheduler set it; none: that of the options
  std::optional<stage::KeptTensors> kept_;  // from the first step_by_selection on
};

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
