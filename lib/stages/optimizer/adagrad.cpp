#include "spec/optimizer/adagrad.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adagrad.h>

namespace trainctl::stages {
namespace {

class FusedAdagrad final : public FusedOptimizer {
 public:
  FusedAdagrad(const spec::optimizer::Adagrad& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"sum"}), options_(options) {
    for (ParameterGroup& group : groups()) {
      group.fill_state(0, options.initial_accumulator_value);
      counts_.emplace_back(group);
    }
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      ParameterGroup& group = groups()[i];
      group.collect();
      if (group.none_active()) continue;
      at::_fused_adagrad_(group.parameters(), group.gradients(), group.state(0),
                          counts_[i].advance(group), group.lr, options_.lr_decay,
                          group.weight_decay(), options_.eps, /*maximize=*/false,
                          /*grad_scale=*/{}, found_inf_);
      if (found_inf_) counts_[i].take_back(group, *found_inf_);
    }
  }

  void step_unless(const at::Tensor& found_inf) override {
    found_inf_ = found_inf;
    step();
    found_inf_.reset();
  }
  [[nodiscard]] bool skips_for_nothing() const override { return true; }

  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    counts_[group].add_state(groups()[group], all);
  }

 private:
  spec::optimizer::Adagrad options_;
  std::vector<StepCounts> counts_;
  std::optional<at::Tensor> found_inf_;  // set during step_unless
};

}  // namespace

void register_optimizer_adagrad(stage::Catalogue& catalogue) {
  catalogue.optimizers.add_class<spec::optimizer::Adagrad, FusedAdagrad>("adagrad");
}

}  // namespace trainctl::stages
