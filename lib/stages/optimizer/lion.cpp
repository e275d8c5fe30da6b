#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sub.h>

#include <vector>

namespace trainctl::stages {
namespace {

/// Chen et al. 2023, algorithm 2. Its state is one moving average of the gradients.
class Lion final : public FusedOptimizer {
 public:
  Lion(const spec::optimizer::Lion& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg"}), options_(options) {}

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    const auto& [step_share, kept] = options_.betas;
    if (group.weight_decay() > 0)
      at::_foreach_mul_(group.parameters(), 1 - group.lr * group.weight_decay());
    std::vector<at::Tensor> steps = at::_foreach_mul(group.state(0), step_share);
    at::_foreach_add_(steps, group.gradients(), 1 - step_share);
    at::_foreach_sign_(steps);
    at::_foreach_mul_(steps, group.lr);
    at::_foreach_sub_(group.parameters(), steps);
    at::_foreach_lerp_(group.state(0), group.gradients(), 1 - kept);
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  spec::optimizer::Lion options_;
};

}  // namespace

void register_optimizer_lion(stage::Catalog& catalog) {
  catalog.optimizers.add_class<spec::optimizer::Lion, Lion>("lion");
}

}  // namespace trainctl::stages
