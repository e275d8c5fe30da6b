#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <array>
#include <vector>

namespace trainctl::stages {
namespace {

using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                        at::TensorList, at::TensorList, const at::Tensor&, double, double, double,
                        double, bool, bool, const std::optional<at::Tensor>&,
                        const std::optional<at::Tensor>&);

using Tensors = std::vector<at::Tensor>;

enum State : std::size_t { kAverage, kSquare, kLargestSquare };  // the last with amsgrad only

StateNames names_of(bool amsgrad) {
  if (amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

/// l2: adds weight decay to the gradient (Adam); decoupled: shrinks the weight (AdamW).
enum class Decay { l2, decoupled };

/// Adam or AdamW, like torch.optim's with fused=True.
class FusedAdam final : public FusedOptimizer {
 public:
  FusedAdam(Decay decay, const spec::optimizer::AdamBase& options,
            const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, names_of(options.amsgrad)),
        options_(options),
        kernel_(decay == Decay::l2 ? Kernel{at::_fused_adam_} : Kernel{at::_fused_adamw_}) {
    for (ParameterGroup& group : groups()) group.count_steps();
  }

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    const at::TensorList largest =
        options_.amsgrad ? at::TensorList(group.state(kLargestSquare)) : at::TensorList();
    kernel_(group.parameters(), group.gradients(), group.state(kAverage), group.state(kSquare),
            largest, group.advance(), group.lr, options_.betas[0], options_.betas[1],
            group.weight_decay(), options_.eps, options_.amsgrad,
            /*maximize=*/false, /*grad_scale=*/{}, found_inf());
  }

  [[nodiscard]] bool skips_in_kernel() const override { return true; }
  [[nodiscard]] bool has_momentum() const override { return true; }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  spec::optimizer::AdamBase options_;
  Kernel kernel_;
};

/// Returns the step counts as one float64 tensor [parameters]. Float32 is too imprecise for what
/// follows: 1 - 0.999 has an error of 1e-5 there, and PyTorch uses double.
at::Tensor in_double(at::TensorList steps) { return at::stack(steps).to(at::kDouble); }

/// Returns 1 - beta^steps in float64.
at::Tensor bias_correction(double beta, const at::Tensor& steps) {
  return at::pow(beta, steps).neg_().add_(1);
}

/// Multiplies each tensor by the value of its parameter in `values` [parameters], which is the same
/// for all if their step counts are equal: then one kernel multiplies all.
void multiply(const ParameterGroup& group, at::TensorList tensors, const at::Tensor& values) {
  const at::Tensor scalars = values.to(group.parameters().front().scalar_type());
  if (group.has_equal_steps()) return at::_foreach_mul_(tensors, scalars.select(0, 0));
  at::_foreach_mul_(tensors, scalars.unbind());
}

/// Returns the tensors divided in the same way.
Tensors divided(const ParameterGroup& group, at::TensorList tensors, const at::Tensor& values) {
  const at::Tensor scalars = values.to(group.parameters().front().scalar_type());
  if (group.has_equal_steps()) return at::_foreach_div(tensors, scalars.select(0, 0));
  return at::_foreach_div(tensors, scalars.unbind());
}

at::Tensor one_minus(const at::Tensor& values) { return values.neg().add_(1); }

Decay decay_of(bool decoupled) { return decoupled ? Decay::decoupled : Decay::l2; }

/// Applies weight decay to the gradients, which it returns, or to the parameters.
Tensors decayed(const ParameterGroup& group, Decay decay) {
  if (group.weight_decay() == 0) return group.gradients();
  if (decay == Decay::l2)
    return at::_foreach_add(group.gradients(), group.parameters(), group.weight_decay());
  at::_foreach_mul_(group.parameters(), 1 - group.lr * group.weight_decay());
  return group.gradients();
}

/// Updates the running averages of the gradients and of their squares.
void average(const ParameterGroup& group, at::TensorList gradients,
             const std::array<double, 2>& betas) {
  at::_foreach_lerp_(group.state(kAverage), gradients, 1 - betas[0]);
  at::_foreach_mul_(group.state(kSquare), betas[1]);
  at::_foreach_addcmul_(group.state(kSquare), gradients, gradients, 1 - betas[1]);
}

/// parameters -= lr * factor * direction / root
void take(const ParameterGroup& group, at::TensorList direction, at::TensorList root,
          const at::Tensor& factors) {
  Tensors step = at::_foreach_div(direction, root);
  multiply(group, step, factors.mul(group.lr));
  at::_foreach_sub_(group.parameters(), step);
}

class Nadam final : public FusedOptimizer {
 public:
  Nadam(const spec::optimizer::Nadam& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg", "exp_avg_sq"}), options_(options) {
    for (ParameterGroup& group : groups()) {
      group.count_steps();
      products_.push_back(at::ones({static_cast<std::int64_t>(group.size())},
                                   at::TensorOptions(at::kFloat).device(group.device()))
                              .unbind());
    }
  }

  void update(ParameterGroup& group, std::size_t index) override {
    const at::Tensor steps = in_double(group.advance());
    const Tensors gradients = decayed(group, decay_of(options_.decoupled_weight_decay));
    average(group, gradients, options_.betas);

    Tensors products;
    for (const std::size_t member : group.active()) products.push_back(products_[index][member]);
    const at::Tensor now = momentum(steps);
    const at::Tensor next = momentum(steps.add(1));
    at::_foreach_mul_(products, now.to(at::kFloat).unbind());  // float32, like torch
    group.has_equal_steps(products);
    const at::Tensor product = in_double(products);

    Tensors root = divided(group, group.state(kSquare), bias_correction(options_.betas[1], steps));
    at::_foreach_sqrt_(root);
    at::_foreach_add_(root, options_.eps);
    take(group, gradients, root, one_minus(now).div_(one_minus(product)));
    take(group, group.state(kAverage), root, next.div(one_minus(product.mul(next))));
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void add_state_of(std::size_t group, std::vector<stage::NamedTensor>& all) const override {
    for (std::size_t i = 0; i < products_[group].size(); ++i)
      all.push_back({groups()[group].name(i) + ".mu_product", products_[group][i]});
  }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  /// Returns the momentum of Dozat's schedule at these step counts, one for each parameter, in
  /// float64.
  [[nodiscard]] at::Tensor momentum(const at::Tensor& steps) const {
    constexpr double kBase = 0.96;  // of the paper and of torch
    const double decay = options_.betas[0];
    return at::pow(kBase, steps.mul(options_.momentum_decay)).mul_(-0.5 * decay).add_(decay);
  }

  spec::optimizer::Nadam options_;
  std::vector<Tensors> products_;  // by group: products of all momenta, one per parameter
};

/// Liu et al. 2019. A parameter's first steps, in which its variance is not yet known, are steps of
/// the average of its gradients.
class Radam final : public FusedOptimizer {
 public:
  Radam(const spec::optimizer::Radam& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg", "exp_avg_sq"}), options_(options) {
    for (ParameterGroup& group : groups()) group.count_steps();
  }

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    const auto& [decay, square_decay] = options_.betas;
    const at::Tensor steps = in_double(group.advance());
    average(group, decayed(group, decay_of(options_.decoupled_weight_decay)), options_.betas);

    const at::Tensor correction = bias_correction(square_decay, steps);
    const double longest = 2 / (1 - square_decay) - 1;
    const at::Tensor length =  // of the moving average that approximates the variance
        longest - 2 * steps * at::pow(square_decay, steps) / correction;
    const at::Tensor rectified = length.gt(5).to(at::kDouble);
    const at::Tensor factors = at::where(
        rectified.gt(0), rectification(length, longest).mul(correction).sqrt_(), rectified.add(1));

    // Until the variance is rectified the root is 1.
    Tensors root = at::_foreach_sqrt(group.state(kSquare));
    at::_foreach_add_(root, options_.eps);
    multiply(group, root, rectified);
    const at::Tensor ones = one_minus(rectified).to(root.front().scalar_type());
    if (group.has_equal_steps()) {
      at::_foreach_add_(root, ones.select(0, 0));
    } else {
      at::_foreach_add_(root, ones.unbind());
    }
    take(group, group.state(kAverage), root, factors.div(bias_correction(decay, steps)));
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  /// Returns the square of the factor r of the paper; meaningless where `length` is 5 or less.
  static at::Tensor rectification(const at::Tensor& length, double longest) {
    return (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
  }

  spec::optimizer::Radam options_;
};

/// You et al. 2019, algorithm 2, with the identity as phi. Parameters without weight decay use
/// Adam, as in timm.
class Lamb final : public FusedOptimizer {
 public:
  Lamb(const spec::optimizer::Lamb& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"exp_avg", "exp_avg_sq"}), options_(options) {
    for (ParameterGroup& group : groups()) group.count_steps();
  }

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    const auto& [decay, square_decay] = options_.betas;
    const at::Tensor steps = in_double(group.advance());
    average(group, group.gradients(), options_.betas);
    Tensors root = divided(group, group.state(kSquare), bias_correction(square_decay, steps));
    at::_foreach_sqrt_(root);
    at::_foreach_add_(root, options_.eps);
    Tensors direction = divided(group, group.state(kAverage), bias_correction(decay, steps));
    at::_foreach_div_(direction, root);
    at::_foreach_add_(direction, group.parameters(), group.weight_decay());
    if (!is_exempt(group)) at::_foreach_mul_(direction, trust(group.parameters(), direction));
    at::_foreach_mul_(direction, group.lr);
    at::_foreach_sub_(group.parameters(), direction);
  }

  [[nodiscard]] bool has_momentum() const override { return true; }
  void use_momentum(double momentum) override { options_.betas[0] = momentum; }

 private:
  /// Whether the group is exempt from weight decay, and so from the trust ratio.
  [[nodiscard]] bool is_exempt(const ParameterGroup& group) const {
    return !options_.always_adapt && options_.weight_decay > 0 && group.weight_decay() == 0;
  }

  /// Returns the norm of each parameter divided by that of its direction; 1 if either is 0.
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
};

}  // namespace

void register_optimizer_adam(stage::Catalog& catalog) {
  auto& optimizers = catalog.optimizers;
  optimizers.add_class<spec::optimizer::Adam, FusedAdam>("adam", Decay::l2);
  optimizers.add_class<spec::optimizer::Adamw, FusedAdam>("adamw", Decay::decoupled);
  optimizers.add_class<spec::optimizer::Nadam, Nadam>("nadam");
  optimizers.add_class<spec::optimizer::Radam, Radam>("radam");
  optimizers.add_class<spec::optimizer::Lamb, Lamb>("lamb");
}

}  // namespace trainctl::stages
