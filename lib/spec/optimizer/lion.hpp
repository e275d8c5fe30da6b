#pragma once

#include "spec/optimizer/base.hpp"

#include <array>

namespace trainctl::spec::optimizer {

struct Lion : Base {
  static constexpr auto kSummary =
      "Lion (Chen et al. 2023): steps by the sign of the averaged gradient; decoupled weight "
      "decay; "
      "foreach kernels.";

  std::array<double, 2> betas{0.9, 0.99};

  Lion() { lr = 1e-4; }
  static void describe(config::Describe<Lion>& options) {
    options.include<Base>();
    options.field("betas", &Lion::betas, "Share of the average in a step, and its decay rate.")
        .at_least(0)
        .below(1);
  }
};

}  // namespace trainctl::spec::optimizer
