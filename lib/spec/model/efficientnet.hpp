#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

namespace trainctl::spec::model {

/// The options that all sizes share; larger ones drop more by default.
struct Efficientnet {
  double dropout = 0.2;
  double stochastic_depth_prob = 0.2;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }

  static void describe(config::Describe<Efficientnet>& options) {
    options
        .field("dropout", &Efficientnet::dropout,
               "Probability of dropping a feature in front of the last layer.")
        .at_least(0)
        .below(1);
    options
        .field("stochastic_depth_prob", &Efficientnet::stochastic_depth_prob,
               "Probability that the last block is left out for a sample; from 0 at the first "
               "block it rises evenly (Huang et al. 2016).")
        .at_least(0)
        .at_most(1);
  }
};

struct EfficientnetB0 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B0 (Tan & Le 2019), as torchvision's: 5.3 million parameters, made for "
      "224x224.";

  static void describe(config::Describe<EfficientnetB0>& options) {
    options.include<Efficientnet>();
  }
};

struct EfficientnetB1 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B1 (Tan & Le 2019), as torchvision's: 7.8 million parameters, made for "
      "240x240.";

  static void describe(config::Describe<EfficientnetB1>& options) {
    options.include<Efficientnet>();
  }
};

struct EfficientnetB2 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B2 (Tan & Le 2019), as torchvision's: 9.1 million parameters, made for "
      "260x260.";

  EfficientnetB2() { dropout = 0.3; }

  static void describe(config::Describe<EfficientnetB2>& options) {
    options.include<Efficientnet>();
  }
};

struct EfficientnetB3 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B3 (Tan & Le 2019), as torchvision's: 12.2 million parameters, made for "
      "300x300.";

  EfficientnetB3() { dropout = 0.3; }

  static void describe(config::Describe<EfficientnetB3>& options) {
    options.include<Efficientnet>();
  }
};

struct EfficientnetB4 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B4 (Tan & Le 2019), as torchvision's: 19.3 million parameters, made for "
      "380x380.";

  EfficientnetB4() { dropout = 0.4; }

  static void describe(config::Describe<EfficientnetB4>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
