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

/// Parameters of one device, dtype and setting: what a fused kernel takes in one call. The lists of
/// those that have a gradient are kept between steps and mended where something changed, so that a
/// step allocates nothing; the gradients themselves are not.
class ParameterGroup {
 public:
  /// `members` share device, dtype and setting. The tensors kept for each are zero at first.
  ParameterGroup(std::vector<stage::NamedTensor> members, ParameterSetting setting);

  /// Every member's state of this kind, whether it has a gradient or not.
  void fill_state(std::size_t kind, double value);
  /// From now on the steps that each member takes are counted, and are part of its state: "step".
  void count_steps();
  /// Counts this step for the members that take part, and returns their counts (float32, 0-d).
  at::TensorList advance();
  /// Undoes the last count where `found_inf` says that nothing was updated.
  void take_back(const at::Tensor& found_inf);

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
  at::Tensor all_steps_;                          // float32 [members]; undefined: not counted
  std::vector<at::Tensor> steps_, active_steps_;  // 0-d views of it
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
  /// the flag, which skips_for_nothing() says, get it as found_inf().
  void step_unless(const at::Tensor& found_inf) final;
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
  /// Updates the members that have a gradient, at least one; `index` is the group's.
  virtual void update(ParameterGroup& group, std::size_t index) = 0;
  /// The flag of a step_unless() that hands it to the kernels, while it runs.
  [[nodiscard]] const std::optional<at::Tensor>& found_inf() const { return found_inf_; }
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
  std::optional<at::Tensor> found_inf_;
};

}  // namespace trainctl::stages
