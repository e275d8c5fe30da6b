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

struct Adam : AdamBase {
  static constexpr auto kSummary =
      "Adam (Kingma & Ba 2014), as torch.optim.Adam; weight decay is L2; fused kernel.";

  static void describe(config::Describe<Adam>& options) { options.include<AdamBase>(); }
};

struct Adamw : AdamBase {
  static constexpr auto kSummary =
      "AdamW (Loshchilov & Hutter 2017): Adam with decoupled weight decay; fused kernel.";

  Adamw() { weight_decay = 1e-2; }
  static void describe(config::Describe<Adamw>& options) { options.include<AdamBase>(); }
};

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
