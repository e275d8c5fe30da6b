#pragma once

#include "spec/optimizer/base.hpp"

namespace trainctl::spec::optimizer {

struct Adagrad : Base {
  static constexpr auto kSummary =
      "Adagrad (Duchi et al. 2011), as torch.optim.Adagrad; weight decay is L2; fused kernel.";

  double lr_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;

  Adagrad() { lr = 1e-2; }
  static void describe(config::Describe<Adagrad>& options) {
    options.include<Base>();
    options.field("lr_decay", &Adagrad::lr_decay, "The rate is divided by 1 + step * lr_decay.")
        .at_least(0);
    options
        .field("initial_accumulator_value", &Adagrad::initial_accumulator_value,
               "What the sums of squares start from.")
        .at_least(0);
    options.field("eps", &Adagrad::eps, "Added to the denominator.").at_least(0);
  }
};

}  // namespace trainctl::spec::optimizer
