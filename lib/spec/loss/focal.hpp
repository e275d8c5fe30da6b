#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <optional>

namespace trainctl::spec::loss {

struct Focal {
  static constexpr auto kSummary =
      "Cross entropy that counts well-classified rows less (Lin et al. 2017); of numbers from 0 to "
      "1 "
      "as torchvision's sigmoid_focal_loss, of classes over the softmax.";

  double gamma = 2;
  std::optional<double> alpha;

  [[nodiscard]] static bool takes(Targets) { return true; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<Focal>& options) {
    options
        .field("gamma", &Focal::gamma, "Power of what is missing to certainty; 0: cross entropy.")
        .at_least(0);
    options
        .field("alpha", &Focal::alpha,
               "Of numbers: weight of ones, 1 - alpha that of zeros; none: both 1.")
        .at_least(0)
        .at_most(1)
        .example("0.25");
  }
};

}  // namespace trainctl::spec::loss
