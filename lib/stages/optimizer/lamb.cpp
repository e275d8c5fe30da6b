#include "spec/optimizer/lamb.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/step_counts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <vector>

namespace trainctl::stages {
namespace {

enum State : std::size_t { kAverage, kSquare };

using Tensors = std::vector<at::Tensor>;

/// You et al. 2019, algorithm 2, phi the identity; Adam for what is exempt from weight decay, as in
/// timm.
class Lamb final : public FusedOptimizer {
 public:
  Lamb(const spec::optimizer::Lamb& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg", "exp_avg_sq"}), options_(options) {
    for (const ParameterGroup& group : groups()) counts_.emplace_back(group);
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      groups()[i].collect();
      if (!groups()[i].none_active()) update(groups()[i], counts_[i].advance(groups()[i]));
    }
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    counts_[group].add_state(groups()[group], all);
  }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  void update(const ParameterGroup& group, at::TensorList step_counts) const {
    const auto& [decay, square_decay] = options_.betas;
    const at::Tensor steps = in_double(step_counts);
    at::_foreach_lerp_(group.state(kAverage), group.gradients(), 1 - decay);
    at::_foreach_mul_(group.state(kSquare), square_decay);
    at::_foreach_addcmul_(group.state(kSquare), group.gradients(), group.gradients(),
                          1 - square_decay);
    Tensors root = at::_foreach_div(group.state(kSquare),
                                    scalars_for(group, bias_correction(square_decay, steps)));
    at::_foreach_sqrt_(root);
    at::_foreach_add_(root, options_.eps);
    Tensors direction =
        at::_foreach_div(group.state(kAverage), scalars_for(group, bias_correction(decay, steps)));
    at::_foreach_div_(direction, root);
    at::_foreach_add_(direction, group.parameters(), group.weight_decay());
    if (!is_exempt(group)) at::_foreach_mul_(direction, trust(group.parameters(), direction));
    at::_foreach_mul_(direction, group.lr);
    at::_foreach_sub_(group.parameters(), direction);
  }

  /// From weight decay, and so from the ratio.
  [[nodiscard]] bool is_exempt(const ParameterGroup& group) const {
    return !options_.always_adapt && options_.weight_decay > 0 && group.weight_decay() == 0;
  }

  /// The length of each parameter over that of its direction; 1 where one of them is 0.
  static Tensors trust(at::TensorList parameters, at::TensorList directions) {
    const Tensors lengths = at::_foreach_norm(parameters);
    const Tensors steps = at::_foreach_norm(directions);
    Tensors ratios;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const at::Tensor both = lengths[i].gt(0).logical_and(steps[i].gt(0));
      ratios.push_back(at::where(both, lengths[i] / steps[i], at::ones_like(steps[i])));
    }
    return ratios;
  }

  spec::optimizer::Lamb options_;
  std::vector<StepCounts> counts_;
};

}  // namespace

void register_optimizer_lamb(stage::Catalogue& catalogue) {
  catalogue.optimizers.add_class<spec::optimizer::Lamb, Lamb>("lamb");
}

}  // namespace trainctl::stages
