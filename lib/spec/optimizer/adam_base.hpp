#pragma once

#include "config/describe.hpp"

#include <array>

namespace trainctl::spec::optimizer {

/// The options that adam and adamw share; only the default weight decay differs.
struct AdamBase {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;

  static void describe(config::Describe<AdamBase>& options) {
    options.field("lr", &AdamBase::lr, "Learning rate.").above(0);
    options.field("betas", &AdamBase::betas, "Decay rates of the two running averages.")
        .at_least(0)
        .below(1);
    options.field("eps", &AdamBase::eps, "Added to the denominator.").at_least(0);
    options.field("weight_decay", &AdamBase::weight_decay, "Weight decay.").at_least(0);
    options.field("amsgrad", &AdamBase::amsgrad,
                  "Uses the maximum of past second moments (Reddi et al. 2018).");
  }
};

}  // namespace trainctl::spec::optimizer
