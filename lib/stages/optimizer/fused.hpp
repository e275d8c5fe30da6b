#pragma once

#include "stage/stages.hpp"
#include "stage/tensor_backup.hpp"
#include "stages/optimizer/parameter_rules.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::stages {

/// Parameters of one device, dtype and setting, which a fused kernel updates in one call. The lists
/// of parameters with gradients persist between steps and are updated only where something changed,
/// so that a step allocates nothing. References to the gradients do not persist.
class ParameterGroup {
 public:
  /// `members` share device, dtype and setting. Their state tensors are initially zero.
  ParameterGroup(std::vector<stage::NamedTensor> members, ParameterSetting setting);

  /// Fills the state of this kind of every member, with or without a gradient.
  void fill_state(std::size_t kind, double value);
  /// Starts counting the steps of each member, as part of the state: "step".
  void count_steps();
  /// Increments the step counts of the members with gradients and returns them (float32, 0-d).
  at::TensorList advance();
  /// Returns whether the counts that advance() has returned are equal, so that one kernel can scale
  /// all tensors, and so are `others`: scalars that depend on the steps, passed to the first call
  /// of each step. Waits for the device once after forget_equal_steps(), and if other members have
  /// gradients than before.
  bool has_equal_steps(at::TensorList others = {}) const;
  /// Call it when the counts may have been loaded.
  void forget_equal_steps() { has_equal_steps_.reset(); }
  /// Decrements the counts again if `found_inf` says that nothing was updated.
  void take_back(const at::Tensor& found_inf);

  /// Updates the lists. Throws if a gradient has other strides than its parameter: the CPU kernels
  /// would not notice and would update the wrong elements.
  void collect();
  /// Drops the references to the gradients, so that clearing them frees their memory.
  void release();

  [[nodiscard]] bool all_active() const { return active_.size() == members_.size(); }
  [[nodiscard]] bool none_active() const { return active_.empty(); }
  /// Indices of the members that have a gradient.
  [[nodiscard]] const std::vector<std::size_t>& active() const { return active_; }
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<at::Tensor>& gradients() const { return gradients_; }
  [[nodiscard]] const std::vector<at::Tensor>& state(std::size_t kind) const {
    return active_state_[kind];
  }
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] at::Device device() const { return members_.front().tensor.device(); }

  [[nodiscard]] std::size_t state_kinds() const { return state_.size(); }
  /// Returns a member's parameter, with or without a gradient.
  [[nodiscard]] const at::Tensor& parameter(std::size_t member) const {
    return members_[member].tensor;
  }
  [[nodiscard]] const std::string& name(std::size_t member) const { return members_[member].name; }
  /// Appends every member's state, with or without a gradient: "fc1.weight.exp_avg".
  void add_state(std::vector<stage::NamedTensor>& all) const;
  [[nodiscard]] double weight_decay() const { return setting_.weight_decay; }

  /// The learning rate as the kernels read it: a 0-d tensor on the parameters' device.
  at::Tensor lr;
  /// Sets the group's rate to its multiple of the optimizer's rate.
  void set_lr(double lr_of_all);

 private:
  void rebuild();

  std::vector<stage::NamedTensor> members_;
  ParameterSetting setting_;
  std::vector<std::vector<at::Tensor>> state_;  // [kind][member]
  std::vector<std::size_t> active_;
  std::vector<at::Tensor> parameters_, gradients_;
  std::vector<std::vector<at::Tensor>> active_state_;
  at::Tensor all_steps_;                                // float32 [members]; undefined: not counted
  std::vector<at::Tensor> steps_, active_steps_;        // 0-d views of all_steps_
  mutable std::optional<bool> has_equal_steps_ = true;  // nullopt: unknown
};

/// The base class of optimizers with fused kernels: groups, learning rate, clearing of gradients.
class FusedOptimizer : public stage::Optimizer {
 public:
  /// `state` names the tensors that are kept for each parameter.
  FusedOptimizer(const stage::OptimizerContext& context, const spec::optimizer::Base& options,
                 const StateNames& state);
  /// Takes one setting for each parameter of the context.
  FusedOptimizer(const stage::OptimizerContext& context, double lr,
                 const std::vector<ParameterSetting>& settings);

  void step() final;
  /// Checks the flag on the CPU, and uses step_by_selection() on other devices. Optimizers whose
  /// kernels take the flag, see skips_in_kernel(), get it as found_inf().
  void step_unless(const at::Tensor& found_inf) final;
  [[nodiscard]] bool skips_on_device() const final { return true; }
  /// Runs the step and then restores parameters and state from copies if `found_inf` is not 0.
  /// Works on any device and does not synchronize.
  void step_by_selection(const at::Tensor& found_inf);
  /// Zeroes gradients in place, because they may be views into a reducer's bucket.
  void zero_grad() override;
  void set_lr(double lr) override;
  [[nodiscard]] double initial_lr() const override { return initial_lr_; }
  [[nodiscard]] bool is_repeatable() const override { return true; }
  void set_momentum(double momentum) final;
  [[nodiscard]] std::vector<stage::NamedTensor> state() const final;
  void serialize(StateArchive& archive) final;

 protected:
  /// Updates the members that have a gradient, of which there is at least one; `index` is the
  /// group's.
  virtual void update(ParameterGroup& group, std::size_t index) = 0;
  /// Returns the flag while step_unless() passes it to the kernels.
  [[nodiscard]] const std::optional<at::Tensor>& found_inf() const { return found_inf_; }
  virtual void use_momentum(double /*momentum*/) {}
  /// Appends state of a group's members that is not in the group's own tensors.
  virtual void add_state_of(std::size_t /*group*/, std::vector<stage::NamedTensor>& /*all*/) const {
  }
  std::vector<ParameterGroup>& groups() { return groups_; }
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const { return groups_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> parameters_and_state() const;

  std::vector<ParameterGroup> groups_;
  double initial_lr_;
  double lr_;
  std::optional<double> momentum_;          // set by a scheduler; nullopt: that of the options
  std::optional<stage::KeptTensors> kept_;  // created by the first step_by_selection()
  std::optional<at::Tensor> found_inf_;
};

}  // namespace trainctl::stages
