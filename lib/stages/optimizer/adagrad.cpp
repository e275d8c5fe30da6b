#include "spec/options/optimizer.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/fused.hpp"

#include <ATen/ops/_fused_adagrad.h>

namespace trainctl::stages {
namespace {

class FusedAdagrad final : public FusedOptimizer {
 public:
  FusedAdagrad(const spec::optimizer::Adagrad& options, const stage::OptimizerContext& context)
      : FusedOptimizer(context, options, {"sum"}), options_(options) {
    for (ParameterGroup& group : groups()) {
      group.fill_state(0, options.initial_accumulator_value);
      group.count_steps();
    }
  }

  void update(ParameterGroup& group, std::size_t /*index*/) override {
    at::_fused_adagrad_(group.parameters(), group.gradients(), group.state(0), group.advance(),
                        group.lr, options_.lr_decay, group.weight_decay(), options_.eps,
                        /*maximize=*/false, /*grad_scale=*/{}, found_inf());
  }

  [[nodiscard]] bool skips_in_kernel() const override { return true; }

 private:
  spec::optimizer::Adagrad options_;
};

}  // namespace

void register_optimizer_adagrad(stage::Catalog& catalog) {
  catalog.optimizers.add_class<spec::optimizer::Adagrad, FusedAdagrad>("adagrad");
}

}  // namespace trainctl::stages
