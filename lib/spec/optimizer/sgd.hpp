#pragma once

#include "config/describe.hpp"

namespace trainctl::spec::optimizer {

struct Sgd {
  static constexpr auto kSummary =
      "Stochastic gradient descent with momentum, as torch.optim.SGD; fused kernel.";

  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  static void describe(config::Describe<Sgd>& options) {
    options.field("lr", &Sgd::lr, "Learning rate.").above(0).example("0.1");
    options.field("momentum", &Sgd::momentum, "Momentum factor.").at_least(0).below(1);
    options.field("dampening", &Sgd::dampening, "Dampening of the momentum.")
        .at_least(0)
        .at_most(1);
    options.field("weight_decay", &Sgd::weight_decay, "L2 penalty added to the gradient.")
        .at_least(0);
    options.field("nesterov", &Sgd::nesterov,
                  "Nesterov momentum; needs momentum above 0 and dampening 0.");
  }
};

}  // namespace trainctl::spec::optimizer
