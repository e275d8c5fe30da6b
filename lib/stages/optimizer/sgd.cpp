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
      : FusedOptimizer(context, options.lr, options.momentum > 0 ? 1 : 0), options_(options) {
    ENSURE(config, !options.nesterov || (options.momentum > 0 && options.dampening == 0),
           "nesterov is on with momentum {} and dampening {}: it needs momentum above 0 and "
           "dampening 0",
           options.momentum, options.dampening);
    for (const ParameterGroup& group : groups()) started_.emplace_back(group.size(), false);
  }

  void step() override {
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
      update(group.parameters(), group.gradients(), buffers, group.lr, FirstStep::no);
    }
  }

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
      update(group.parameters()[n], group.gradients()[n], group.state(0)[n], group.lr,
             started[member] ? FirstStep::no : FirstStep::yes);
      started[member] = true;
    }
  }

  void update(at::TensorList parameters, at::TensorList gradients, at::TensorList buffers,
              const at::Tensor& lr, FirstStep first) const {
    at::_fused_sgd_(parameters, gradients, buffers, options_.weight_decay, options_.momentum, lr,
                    options_.dampening, options_.nesterov, /*maximize=*/false,
                    first == FirstStep::yes);
  }

  spec::optimizer::Sgd options_;
  std::vector<std::vector<bool>> started_;  // by group and member
};

}  // namespace

void register_optimizer_sgd(stage::Catalogue& catalogue) {
  catalogue.optimizers.add<spec::optimizer::Sgd>(
      "sgd", [](const auto& options, const auto& context) {
        return std::make_unique<FusedSgd>(options, context);
      });
}

}  // namespace trainctl::stages
