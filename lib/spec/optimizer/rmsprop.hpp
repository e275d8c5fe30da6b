#pragma once

#include "spec/optimizer/base.hpp"

namespace trainctl::spec::optimizer {

struct Rmsprop : Base {
  static constexpr auto kSummary =
      "RMSprop (Hinton 2012), as torch.optim.RMSprop; weight decay is L2; foreach kernels.";

  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;

  Rmsprop() { lr = 1e-2; }
  static void describe(config::Describe<Rmsprop>& options) {
    options.include<Base>();
    options.field("alpha", &Rmsprop::alpha, "Decay rate of the average of squares.")
        .at_least(0)
        .below(1);
    options.field("eps", &Rmsprop::eps, "Added to the denominator.").at_least(0);
    options.field("momentum", &Rmsprop::momentum, "Momentum factor.").at_least(0).below(1);
    options.field("centered", &Rmsprop::centered,
                  "Divides by the estimated deviation in place of the root of the square.");
  }
};

}  // namespace trainctl::spec::optimizer
