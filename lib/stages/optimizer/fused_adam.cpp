#include "stages/optimizer/fused_adam.hpp"

#include "stages/optimizer/step_counts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

namespace trainctl::stages {
namespace {

using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                        at::TensorList, at::TensorList, const at::Tensor&, double, double, double,
                        double, bool, bool, const std::optional<at::Tensor>&,
                        const std::optional<at::Tensor>&);

enum State : std::size_t { kAverage, kSquare, kLargestSquare };  // the last with amsgrad only

StateNames names_of(bool amsgrad) {
  if (amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

class FusedAdam final : public FusedOptimizer {
 public:
  FusedAdam(const spec::optimizer::AdamBase& options, const stage::OptimizerContext& context,
            Decay decay)
      : FusedOptimizer(context, options, names_of(options.amsgrad)),
        options_(options),
        kernel_(decay == Decay::l2 ? Kernel{at::_fused_adam_} : Kernel{at::_fused_adamw_}) {
    for (const ParameterGroup& group : groups()) counts_.emplace_back(group);
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      groups()[i].collect();
      if (groups()[i].none_active()) continue;
      update(groups()[i], counts_[i].advance(groups()[i]));
      if (found_inf_) counts_[i].take_back(groups()[i], *found_inf_);
    }
  }

  void step_unless(const at::Tensor& found_inf) override {
    found_inf_ = found_inf;
    step();
    found_inf_.reset();
  }
  [[nodiscard]] bool skips_for_nothing() const override { return true; }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    counts_[group].add_state(groups()[group], all);
  }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  void update(const ParameterGroup& group, at::TensorList steps) const {
    const at::TensorList largest =
        options_.amsgrad ? at::TensorList(group.state(kLargestSquare)) : at::TensorList();
    kernel_(group.parameters(), group.gradients(), group.state(kAverage), group.state(kSquare),
            largest, steps, group.lr, options_.betas[0], options_.betas[1], group.weight_decay(),
            options_.eps, options_.amsgrad,
            /*maximize=*/false, /*grad_scale=*/{}, found_inf_);
  }

  spec::optimizer::AdamBase options_;
  Kernel kernel_;
  std::vector<StepCounts> counts_;
  std::optional<at::Tensor> found_inf_;  // set during step_unless
};

}  // namespace

std::unique_ptr<stage::Optimizer> make_fused_adam(const spec::optimizer::AdamBase& options,
                                                  const stage::OptimizerContext& context,
                                                  Decay decay) {
  return std::make_unique<FusedAdam>(options, context, decay);
}

}  // namespace trainctl::stages
