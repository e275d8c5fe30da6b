#pragma once

#include "spec/optimizer/base.hpp"

namespace trainctl::spec::optimizer {

struct Sgd : Base {
  static constexpr auto kSummary =
      "Stochastic gradient descent with momentum, as torch.optim.SGD; weight decay is L2; fused "
      "kernel.";

  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  static void describe(config::Describe<Sgd>& options) {
    options.include<Base>();
    options.field("momentum", &Sgd::momentum, "Momentum factor.").at_least(0).below(1);
    options.field("dampening", &Sgd::dampening, "Dampening of the momentum.")
        .at_least(0)
        .at_most(1);
    options.field("nesterov", &Sgd::nesterov,
                  "Nesterov momentum; needs momentum above 0 and dampening 0.");
  }
};

}  // namespace trainctl::spec::optimizer
