#include "stages/optimizer/fused_adam.hpp"

#include "stages/optimizer/fused.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {
namespace {

using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                        at::TensorList, at::TensorList, const at::Tensor&, double, double, double,
                        double, bool, bool, const std::optional<at::Tensor>&,
                        const std::optional<at::Tensor>&);

enum State : std::size_t { kAverage, kSquare, kLargestSquare };  // the last with amsgrad only

/// Steps taken by each parameter of a group: one tensor, and a 0-d view of it for each parameter.
struct StepCounts {
  explicit StepCounts(const ParameterGroup& group)
      : all(at::zeros({static_cast<std::int64_t>(group.size())},
                      at::TensorOptions(at::kFloat).device(group.device()))),
        each(all.unbind()) {}

  at::Tensor all;
  std::vector<at::Tensor> each;
  std::vector<at::Tensor> active;
};

class FusedAdam final : public FusedOptimizer {
 public:
  FusedAdam(const spec::optimizer::AdamBase& options, const stage::OptimizerContext& context,
            Decay decay)
      : FusedOptimizer(context, options.lr, options.amsgrad ? 3 : 2),
        options_(options),
        kernel_(decay == Decay::l2 ? Kernel{at::_fused_adam_} : Kernel{at::_fused_adamw_}) {
    for (const ParameterGroup& group : groups()) counts_.emplace_back(group);
  }

  void step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      groups()[i].collect();
      if (!groups()[i].none_active()) update(groups()[i], advance(groups()[i], counts_[i]));
    }
  }

 private:
  /// Counts this step for the parameters that take part, and returns their counts.
  static at::TensorList advance(const ParameterGroup& group, StepCounts& counts) {
    if (group.all_active()) {
      counts.all.add_(1);
      return counts.each;
    }
    counts.active.clear();
    for (const std::size_t member : group.active()) counts.active.push_back(counts.each[member]);
    at::_foreach_add_(counts.active, 1);
    return counts.active;
  }

  void update(const ParameterGroup& group, at::TensorList steps) const {
    const at::TensorList largest =
        options_.amsgrad ? at::TensorList(group.state(kLargestSquare)) : at::TensorList();
    kernel_(group.parameters(), group.gradients(), group.state(kAverage), group.state(kSquare),
            largest, steps, group.lr, options_.betas[0], options_.betas[1], options_.weight_decay,
            options_.eps, options_.amsgrad,
            /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }

  spec::optimizer::AdamBase options_;
  Kernel kernel_;
  std::vector<StepCounts> counts_;
};

}  // namespace

std::unique_ptr<stage::Optimizer> make_fused_adam(const spec::optimizer::AdamBase& options,
                                                  const stage::OptimizerContext& context,
                                                  Decay decay) {
  return std::make_unique<FusedAdam>(options, context, decay);
}

}  // namespace trainctl::stages
