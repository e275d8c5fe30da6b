#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

struct Lamb : Base {
  static constexpr auto kSummary =
      "LAMB (You et al. 2019): Adam whose step is as long as the weights of each parameter; for "
      "large batches; foreach kernels.";

  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-6;
  bool always_adapt = false;

  static void describe(config::Describe<Lamb>& options) {
    options.include<Base>();
    options.field("betas", &Lamb::betas, "Decay rates of the two running averages.")
        .at_least(0)
        .below(1);
    options.field("eps", &Lamb::eps, "Added to the denominator.").at_least(0);
    options.field("always_adapt", &Lamb::always_adapt,
                  "Steps as long as the weights also of parameters that are exempt from "
                  "weight_decay; false: Adam's steps there, as in timm and TensorFlow.");
  }
};

}  // namespace trainctl::spec::optimizer
