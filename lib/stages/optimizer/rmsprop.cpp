#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>

#include <vector>

namespace trainctl::stages {
namespace {

StateNames names_of(const spec::optimizer::Rmsprop& options) {
  StateNames names{"square_avg"};
  if (options.centered) names.emplace_back("grad_avg");
  if (options.momentum > 0) names.emplace_back("momentum_buffer");
  return names;
}

class Rmsprop final : public FusedOptimizer {
 public:
  Rmsprop(const spec::optimizer::Rmsprop& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, names_of(options)),
        options_(options),
        has_momentum_(options.momentum > 0) {}

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    std::vector<at::Tensor> gradients = group.gradients();
    if (group.weight_decay() > 0)
      gradients = at::_foreach_add(gradients, group.parameters(), group.weight_decay());
    at::_foreach_mul_(group.state(kSquare), options_.alpha);
    at::_foreach_addcmul_(group.state(kSquare), gradients, gradients, 1 - options_.alpha);
    const std::vector<at::Tensor> root = root_of(group, gradients);
    if (options_.momentum > 0) {
      const std::vector<at::Tensor>& buffers = group.state(options_.centered ? 2 : 1);
      at::_foreach_mul_(buffers, options_.momentum);
      at::_foreach_addcdiv_(buffers, gradients, root);
      at::_foreach_sub_(group.parameters(), at::_foreach_mul(buffers, group.lr));
    } else {
      const std::vector<at::Tensor> steps = at::_foreach_div(gradients, root);
      at::_foreach_sub_(group.parameters(), at::_foreach_mul(steps, group.lr));
    }
  }

  [[nodiscard]] bool has_momentum() const override { return has_momentum_; }
  void use_momentum(double momentum) override { options_.momentum = momentum; }

 private:
  static constexpr std::size_t kSquare = 0;
  static constexpr std::size_t kAverage = 1;  // if centered

  /// Returns the denominators as new tensors.
  std::vector<at::Tensor> root_of(const ParameterGroup& group, at::TensorList gradients) const {
    std::vector<at::Tensor> root;
    if (options_.centered) {
      at::_foreach_lerp_(group.state(kAverage), gradients, 1 - options_.alpha);
      root = at::_foreach_addcmul(group.state(kSquare), group.state(kAverage),
                                  group.state(kAverage), -1);
      at::_foreach_sqrt_(root);
    } else {
      root = at::_foreach_sqrt(group.state(kSquare));
    }
    at::_foreach_add_(root, options_.eps);
    return root;
  }

  spec::optimizer::Rmsprop options_;
  bool has_momentum_;  // and a buffer for it
};

}  // namespace

void register_optimizer_rmsprop(stage::Catalog& catalog) {
  catalog.optimizers.add_class<spec::optimizer::Rmsprop, Rmsprop>("rmsprop");
}

}  // namespace trainctl::stages
