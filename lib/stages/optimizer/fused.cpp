#include "stages/optimizer/fused.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>

#include <map>
#include <tuple>
#include <utility>

namespace trainctl::stages {
namespace {

/// Compares strides, except in dimensions of size 1, where they have no meaning.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.stride(d) != b.stride(d) && a.size(d) != 1) return false;
  }
  return true;
}

void check_layout(const stage::NamedTensor& parameter, const at::Tensor& gradient) {
  const at::Tensor& p = parameter.tensor;
  ENSURE(unexpected,
         same_layout(p, gradient) && p.scalar_type() == gradient.scalar_type() &&
             p.device() == gradient.device(),
         "the gradient of '{}' must have the shape [{}] and the strides [{}] of the parameter, got "
         "[{}] and [{}]",
         parameter.name, fmt::join(p.sizes(), ", "), fmt::join(p.strides(), ", "),
         fmt::join(gradient.sizes(), ", "), fmt::join(gradient.strides(), ", "));
}

/// Parameters that one kernel call can update.
struct Alike {
  std::vector<stage::NamedTensor> members;
  ParameterSetting setting;
};

/// Groups in order of first appearance, so that all runs agree.
std::vector<Alike> grouped(const stage::OptimizerContext& context,
                           const std::vector<ParameterSetting>& settings) {
  const std::vector<stage::NamedTensor>& parameters = context.parameters;
  std::vector<Alike> groups;
  std::map<std::tuple<std::string, at::ScalarType, double, double, StateNames>, std::size_t> index;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!context.owned.empty() && !context.owned[i]) continue;
    const stage::NamedTensor& parameter = parameters[i];
    ENSURE(unexpected, parameter.tensor.is_non_overlapping_and_dense(),
           "parameter '{}' is not dense in memory", parameter.name);
    const auto key = std::tuple(parameter.tensor.device().str(), parameter.tensor.scalar_type(),
                                settings[i].lr_scale, settings[i].weight_decay, settings[i].state);
    const auto [place, added] = index.try_emplace(key, groups.size());
    if (added) groups.push_back({{}, settings[i]});
    groups[place->second].members.push_back(parameter);
  }
  return groups;
}

}  // namespace

ParameterGroup::ParameterGroup(std::vector<stage::NamedTensor> members, ParameterSetting setting)
    : members_(std::move(members)),
      setting_(std::move(setting)),
      state_(setting_.state.size()),
      active_state_(setting_.state.size()) {
  // CUDA kernels read a float; on the CPU the rate keeps double precision.
  const at::ScalarType dtype = device().is_cpu() ? at::kDouble : at::kFloat;
  lr = at::zeros({}, at::TensorOptions(dtype).device(device()));
  for (auto& kind : state_) {
    for (const stage::NamedTensor& member : members_)
      kind.push_back(at::zeros_like(member.tensor.detach()));
  }
}

void ParameterGroup::set_lr(double lr_of_all) { lr.fill_(lr_of_all * setting_.lr_scale); }

void ParameterGroup::fill_state(std::size_t kind, double value) {
  for (at::Tensor& tensor : state_[kind]) tensor.fill_(value);
}

void ParameterGroup::add_state(std::vector<stage::NamedTensor>& all) const {
  for (std::size_t kind = 0; kind < state_.size(); ++kind) {
    for (std::size_t i = 0; i < size(); ++i)
      all.push_back({name(i) + "." + setting_.state[kind], state_[kind][i]});
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) all.push_back({name(i) + ".step", steps_[i]});
}

void ParameterGroup::count_steps() {
  all_steps_ = at::zeros({static_cast<std::int64_t>(size())},
                         at::TensorOptions(at::kFloat).device(device()));
  steps_ = all_steps_.unbind();
}

at::TensorList ParameterGroup::advance() {
  if (all_active()) {
    all_steps_.add_(1);
    return steps_;
  }
  active_steps_.clear();
  for (const std::size_t member : active_) active_steps_.push_back(steps_[member]);
  at::_foreach_add_(active_steps_, 1);
  return active_steps_;
}

bool ParameterGroup::has_equal_steps(at::TensorList others) const {
  if (!has_equal_steps_) {
    const auto are_equal = [](at::TensorList scalars) {
      return scalars.empty() || device::value_of<bool>(at::stack(scalars).eq(scalars.front()).all(),
                                                       "step counts of the optimizer");
    };
    has_equal_steps_ = are_equal(all_active() ? steps_ : active_steps_) && are_equal(others);
  }
  return *has_equal_steps_;
}

void ParameterGroup::take_back(const at::Tensor& found_inf) {
  if (!all_steps_.defined()) return;
  if (all_active()) {
    all_steps_.sub_(found_inf);
    return;
  }
  for (at::Tensor& count : active_steps_) count.sub_(found_inf.squeeze());
}

void ParameterGroup::collect() {
  std::size_t n = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const at::Tensor& gradient = members_[i].tensor.grad();
    if (!gradient.defined()) continue;
    if (n == active_.size() || active_[n] != i) return rebuild();
    if (!gradients_[n].is_same(gradient)) {
      check_layout(members_[i], gradient);
      gradients_[n] = gradient;
    }
    ++n;
  }
  if (n != active_.size()) rebuild();
}

void ParameterGroup::release() {
  for (at::Tensor& gradient : gradients_) gradient.reset();
}

void ParameterGroup::rebuild() {
  if (!none_active()) forget_equal_steps();
  active_.clear();
  parameters_.clear();
  gradients_.clear();
  for (auto& kind : active_state_) kind.clear();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const at::Tensor& gradient = members_[i].tensor.grad();
    if (!gradient.defined()) continue;
    check_layout(members_[i], gradient);
    active_.push_back(i);
    parameters_.push_back(members_[i].tensor);
    gradients_.push_back(gradient);
    for (std::size_t k = 0; k < state_.size(); ++k) active_state_[k].push_back(state_[k][i]);
  }
}

FusedOptimizer::FusedOptimizer(const stage::OptimizerContext& context,
                               const spec::optimizer::Base& options, const StateNames& state)
    : FusedOptimizer(context, options.lr, parameter_settings(options, context.parameters, state)) {}

FusedOptimizer::FusedOptimizer(const stage::OptimizerContext& context, double lr,
                               const std::vector<ParameterSetting>& settings)
    : initial_lr_(lr), lr_(lr) {
  ENSURE(config, !context.parameters.empty(),
         "there is nothing to train: every parameter is frozen");
  ASSERT(context.owned.empty() || context.owned.size() == context.parameters.size());
  for (Alike& alike : grouped(context, settings))
    groups_.emplace_back(std::move(alike.members), alike.setting).set_lr(lr_);
}

void FusedOptimizer::step() {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].collect();
    if (groups_[i].none_active()) continue;
    update(groups_[i], i);
    if (found_inf_) groups_[i].take_back(*found_inf_);
  }
  for (ParameterGroup& group : groups_) group.release();
}

void FusedOptimizer::step_unless(const at::Tensor& found_inf) {
  if (skips_in_kernel()) {
    found_inf_ = found_inf;
    step();
    found_inf_.reset();
  } else if (found_inf.is_cpu()) {
    stage::Optimizer::step_unless(found_inf);
  } else {
    step_by_selection(found_inf);
  }
}

// Multiplying by a factor of 0 would not work: 0 times a non-finite value is NaN.
void FusedOptimizer::step_by_selection(const at::Tensor& found_inf) {
  if (!kept_) kept_.emplace(parameters_and_state());
  kept_->take();
  step();
  kept_->put_back_where(found_inf.squeeze().ne(0));
}

std::vector<at::Tensor> FusedOptimizer::parameters_and_state() const {
  std::vector<at::Tensor> all;
  for (const ParameterGroup& group : groups_) {
    for (std::size_t i = 0; i < group.size(); ++i) all.push_back(group.parameter(i));
  }
  for (const auto& [name, tensor] : state()) all.push_back(tensor);
  return all;
}

void FusedOptimizer::zero_grad() {
  const at::NoGradGuard guard;
  for (ParameterGroup& group : groups_) {
    group.collect();
    if (!group.none_active()) at::_foreach_zero_(group.gradients());
    group.release();
  }
}

void FusedOptimizer::set_lr(double lr) {
  if (lr == lr_) return;
  lr_ = lr;
  for (ParameterGroup& group : groups_) group.set_lr(lr);
}

void FusedOptimizer::set_momentum(double momentum) {
  momentum_ = momentum;
  use_momentum(momentum);
}

std::vector<stage::NamedTensor> FusedOptimizer::state() const {
  std::vector<stage::NamedTensor> all;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].add_state(all);
    add_state_of(i, all);
  }
  return all;
}

void FusedOptimizer::serialize(StateArchive& archive) {
  double lr = lr_;
  archive.value("lr", &lr);
  set_lr(lr);
  std::optional<double> momentum = momentum_;
  archive.value("momentum", &momentum);
  if (momentum) set_momentum(*momentum);
  if (archive.has("")) return;  // true while saving only, which changes no counts
  for (ParameterGroup& group : groups_) group.forget_equal_steps();
}

}  // namespace trainctl::stages
