#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

struct Nadam : Base {
  static constexpr auto kSummary =
      "Adam with Nesterov momentum (Dozat 2016), as torch.optim.NAdam; weight decay is L2 unless "
      "decoupled; foreach kernels.";

  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;

  Nadam() { lr = 2e-3; }
  static void describe(config::Describe<Nadam>& options) {
    options.include<Base>();
    options.field("betas", &Nadam::betas, "Decay rates of the two running averages.")
        .at_least(0)
        .below(1);
    options.field("eps", &Nadam::eps, "Added to the denominator.").at_least(0);
    options.field("momentum_decay", &Nadam::momentum_decay, "How fast the momentum warms up.")
        .at_least(0);
    options.field("decoupled_weight_decay", &Nadam::decoupled_weight_decay,
                  "Shrinks the weights as AdamW does, in place of the L2 penalty.");
  }
};

}  // namespace trainctl::spec::optimizer
