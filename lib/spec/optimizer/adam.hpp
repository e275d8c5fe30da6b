#pragma once

#include "spec/optimizer/adam_base.hpp"

namespace trainctl::spec::optimizer {

struct Adam : AdamBase {
  static constexpr auto kSummary =
      "Adam (Kingma & Ba 2014), as torch.optim.Adam; weight decay is L2; fused kernel.";

  static void describe(config::Describe<Adam>& options) { options.include<AdamBase>(); }
};

}  // namespace trainctl::spec::optimizer
