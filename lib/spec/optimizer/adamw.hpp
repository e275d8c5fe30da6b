#pragma once

#include "spec/optimizer/adam_base.hpp"

namespace trainctl::spec::optimizer {

struct Adamw : AdamBase {
  static constexpr auto kSummary =
      "AdamW (Loshchilov & Hutter 2017): Adam with decoupled weight decay; fused kernel.";

  Adamw() { weight_decay = 1e-2; }
  static void describe(config::Describe<Adamw>& options) { options.include<AdamBase>(); }
};

}  // namespace trainctl::spec::optimizer
