#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

/// The options that adam and adamw share; only the default weight decay differs.
struct AdamBase : Base {
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  bool amsgrad = false;

  static void describe(config::Describe<AdamBase>& options) {
    options.include<Base>();
    options.field("betas", &AdamBase::betas, "Decay rates of the two running averages.")
        .at_least(0)
        .below(1);
    options.field("eps", &AdamBase::eps, "Added to the denominator.").at_least(0);
    options.field("amsgrad", &AdamBase::amsgrad,
                  "Uses the maximum of past second moments (Reddi et al. 2018).");
  }
};

}  // namespace trainctl::spec::optimizer
