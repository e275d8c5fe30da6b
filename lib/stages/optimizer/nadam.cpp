#include "spec/optimizer/nadam.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/step_counts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>

#include <vector>

namespace trainctl::stages {
namespace {

enum State : std::size_t { kAverage, kSquare };

using Tensors = std::vector<at::Tensor>;

at::Tensor one_minus(const at::Tensor& values) { return values.neg().add_(1); }

class Nadam final : public FusedOptimizer {
 public:
  Nadam(const spec::optimizer::Nadam& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg", "exp_avg_sq"}), options_(options) {
    for (const ParameterGroup& group : groups()) {
      counts_.emplace_back(group);
      products_.push_back(at::ones({static_cast<std::int64_t>(group.size())},
                                   at::TensorOptions(at::kFloat).device(group.device()))
                              .unbind());
    }
  }

  void take_step() override {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < groups().size(); ++i) {
      groups()[i].collect();
      if (!groups()[i].none_active()) update(groups()[i], counts_[i], products_[i]);
    }
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    counts_[group].add_state(groups()[group], all);
    for (std::size_t i = 0; i < products_[group].size(); ++i)
      all.push_back({groups()[group].name(i) + ".mu_product", products_[group][i]});
  }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  /// The momentum of Dozat's schedule after so many steps, one for each parameter, in float64.
  [[nodiscard]] at::Tensor momentum(const at::Tensor& steps) const {
    constexpr double kBase = 0.96;  // of the paper, and of torch
    const double decay = options_.betas[0];
    return at::pow(kBase, steps.mul(options_.momentum_decay)).mul_(-0.5 * decay).add_(decay);
  }

  Tensors decayed(const ParameterGroup& group) const {
    if (group.weight_decay() == 0) return group.gradients();
    if (!options_.decoupled_weight_decay)
      return at::_foreach_add(group.gradients(), group.parameters(), group.weight_decay());
    at::_foreach_mul_(group.parameters(), 1 - group.lr * group.weight_decay());
    return group.gradients();
  }

  void update(const ParameterGroup& group, StepCounts& counts, const Tensors& all_products) const {
    const at::Tensor steps = in_double(counts.advance(group));
    const Tensors gradients = decayed(group);
    at::_foreach_lerp_(group.state(kAverage), gradients, 1 - options_.betas[0]);
    at::_foreach_mul_(group.state(kSquare), options_.betas[1]);
    at::_foreach_addcmul_(group.state(kSquare), gradients, gradients, 1 - options_.betas[1]);

    Tensors products;
    for (const std::size_t member : group.active()) products.push_back(all_products[member]);
    const at::Tensor now = momentum(steps);
    const at::Tensor next = momentum(steps.add(1));
    at::_foreach_mul_(products, now.to(at::kFloat).unbind());  // float32, as torch keeps it
    const at::Tensor product = in_double(products);

    Tensors root = at::_foreach_div(group.state(kSquare),
                                    scalars_for(group, bias_correction(options_.betas[1], steps)));
    at::_foreach_sqrt_(root);
    at::_foreach_add_(root, options_.eps);
    take(group, gradients, root, one_minus(now).div_(one_minus(product)));
    take(group, group.state(kAverage), root, next.div(one_minus(product.mul(next))));
  }

  /// parameters -= lr * factor * direction / root
  static void take(const ParameterGroup& group, at::TensorList direction, at::TensorList root,
                   const at::Tensor& factors) {
    Tensors step = at::_foreach_div(direction, root);
    at::_foreach_mul_(step, scalars_for(group, factors.mul(group.lr)));
    at::_foreach_sub_(group.parameters(), step);
  }

  spec::optimizer::Nadam options_;
  std::vector<StepCounts> counts_;
  std::vector<Tensors> products_;  // by group: of the momenta of all steps, one for each parameter
};

}  // namespace

void register_optimizer_nadam(stage::Catalogue& catalogue) {
  catalogue.optimizers.add_class<spec::optimizer::Nadam, Nadam>("nadam");
}

}  // namespace trainctl::stages
