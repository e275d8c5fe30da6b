#include "spec/optimizer/sgd.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>

#include <algorithm>

namespace trainctl::stages {
namespace {

enum class FirstStep { no, yes };

class FusedSgd final : public FusedOptimizer {
 public:
  FusedSgd(const spec::optimizer::Sgd& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, options.momentum > 0 ? 1 : 0),
        options_(options),
        has_momentum_(options.momentum > 0) {
    ENSURE(config, !options.nesterov || (options.momentum > 0 && options.dampening == 0),
           "nesterov is on with momentum {} and dampening {}: it needs momentum above 0 and "
           "dampening 0",
           options.momentum, options.dampening);
    for (const ParameterGroup& group : groups()) started_.emplace_back(group.size(), false);
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      ParameterGroup& group = groups()[i];
      group.collect();
      if (group.none_active()) continue;
      if (options_.momentum > 0 && options_.dampening > 0 && any_first(group, started_[i])) {
        step_one_by_one(group, started_[i]);
        continue;
      }
      const at::TensorList buffers =
          options_.momentum > 0 ? at::TensorList(group.state(0)) : at::TensorList();
      update(group, {group.parameters(), group.gradients(), buffers}, FirstStep::no);
    }
  }

  void step_unless(const at::Tensor& found_inf) override {
    if (!skips_on_device()) {
      FusedOptimizer::step_unless(found_inf);
      return;
    }
    found_inf_ = found_inf;
    step();
    found_inf_.reset();
  }
  /// With dampening it must be known which step is the first.
  [[nodiscard]] bool skips_on_device() const override {
    return options_.momentum == 0 || options_.dampening == 0;
  }

  [[nodiscard]] bool has_momentum() const override { return has_momentum_; }
  void set_momentum(double momentum) override { options_.momentum = momentum; }

 private:
  static bool any_first(const ParameterGroup& group, const std::vector<bool>& started) {
    return std::any_of(group.active().begin(), group.active().end(),
                       [&](std::size_t i) { return !started[i]; });
  }

  /// The first step is not dampened, and the kernel has one switch for a whole list. Without
  /// dampening a buffer of zeros gives the same sums, so only this case looks at single parameters.
  void step_one_by_one(const ParameterGroup& group, std::vector<bool>& started) const {
    for (std::size_t n = 0; n < group.active().size(); ++n) {
      const std::size_t member = group.active()[n];
      update(group, {group.parameters()[n], group.gradients()[n], group.state(0)[n]},
             started[member] ? FirstStep::no : FirstStep::yes);
      started[member] = true;
    }
  }

  struct Part {
    at::TensorList parameters, gradients, buffers;
  };

  void update(const ParameterGroup& group, const Part& part, FirstStep first) const {
    at::_fused_sgd_(part.parameters, part.gradients, part.buffers, group.weight_decay(),
                    options_.momentum, group.lr, options_.dampening, options_.nesterov,
                    /*maximize=*/false, first == FirstStep::yes, /*grad_scale=*/{}, found_inf_);
  }

  spec::optimizer::Sgd options_;
  bool has_momentum_;                       // and a buffer for it
  std::vector<std::vector<bool>> started_;  // by group and member
  std::optional<at::Tensor> found_inf_;     // set during step_unless
};

}  // namespace

void register_optimizer_sgd(stage::Catalogue& catalogue) {
  catalogue.optimizers.add<spec::optimizer::Sgd>(
      "sgd", [](const auto& options, const auto& context) {
        return std::make_unique<FusedSgd>(options, context);
      });
}

}  // namespace trainctl::stages
