#include "stages/optimizer/sgd.hpp"

#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace trainctl::stages {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Returns the share of each gradient that is added to the momentum: 1 in the first step.
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

void run_dampened_step(const ParameterGroup& group, const at::Tensor& started,
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

namespace {

enum class FirstStep { no, yes };

StateNames names_of(const spec::optimizer::Sgd& options) {
  if (options.momentum > 0) return {"momentum_buffer"};
  return {};
}

class FusedSgd final : public FusedOptimizer {
 public:
  FusedSgd(const spec::optimizer::Sgd& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, names_of(options)),
        options_(options),
        has_momentum_(options.momentum > 0) {
    ENSURE(config, !options.nesterov || (options.momentum > 0 && options.dampening == 0),
           "nesterov needs momentum above 0 and dampening 0, got momentum {} and dampening {}",
           options.momentum, options.dampening);
    for (const ParameterGroup& group : groups())
      started_.push_back(at::zeros({static_cast<std::int64_t>(group.size())},
                                   at::TensorOptions(at::kBool).device(group.device())));
  }

  void update(ParameterGroup& group, std::size_t index) override {
    if (dampens() && !group.device().is_cpu()) {
      run_dampened_step(group, started_[index], {options_.momentum, options_.dampening});
    } else if (dampens() && any_first(group, started_[index])) {
      step_one_by_one(group, started_[index]);
    } else {
      const at::TensorList buffers =
          options_.momentum > 0 ? at::TensorList(group.state(0)) : at::TensorList();
      update_part(group, {group.parameters(), group.gradients(), buffers}, FirstStep::no);
    }
  }

  /// With dampening the kernel needs to know which step is the first.
  [[nodiscard]] bool skips_in_kernel() const override { return !dampens(); }

  [[nodiscard]] bool has_momentum() const override { return has_momentum_; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    if (!has_momentum_ || options_.dampening == 0) return;  // makes no difference then
    for (std::size_t i = 0; i < groups()[group].size(); ++i) {
      all.push_back({groups()[group].name(i) + ".started",
                     started_[group].select(0, static_cast<std::int64_t>(i))});
    }
  }
  void use_momentum(double momentum) override { options_.momentum = momentum; }

 private:
  [[nodiscard]] bool dampens() const { return options_.momentum > 0 && options_.dampening > 0; }

  /// `started` must be on the CPU.
  static bool any_first(const ParameterGroup& group, const at::Tensor& started) {
    const bool* flags = started.const_data_ptr<bool>();
    return std::any_of(group.active().begin(), group.active().end(),
                       [&](std::size_t i) { return !flags[i]; });
  }

  /// The first step is not dampened, but the kernel has one switch for the whole list, so this
  /// updates each parameter separately. Without dampening a zero buffer gives the same sums.
  void step_one_by_one(const ParameterGroup& group, at::Tensor& started) const {
    bool* flags = started.mutable_data_ptr<bool>();
    for (std::size_t n = 0; n < group.active().size(); ++n) {
      const std::size_t member = group.active()[n];
      update_part(group, {group.parameters()[n], group.gradients()[n], group.state(0)[n]},
                  flags[member] ? FirstStep::no : FirstStep::yes);
      flags[member] = true;
    }
  }

  struct Part {
    at::TensorList parameters, gradients, buffers;
  };

  void update_part(const ParameterGroup& group, const Part& part, FirstStep first) const {
    at::_fused_sgd_(part.parameters, part.gradients, part.buffers, group.weight_decay(),
                    options_.momentum, group.lr, options_.dampening, options_.nesterov,
                    /*maximize=*/false, first == FirstStep::yes, /*grad_scale=*/{}, found_inf());
  }

  spec::optimizer::Sgd options_;
  bool has_momentum_;                // and a buffer for it
  std::vector<at::Tensor> started_;  // bool [members] of each group, on its device
};

}  // namespace

void register_optimizer_sgd(stage::Catalog& catalog) {
  catalog.optimizers.add_class<spec::optimizer::Sgd, FusedSgd>("sgd");
}

}  // namespace trainctl::stages
