#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <array>
#include <optional>

namespace trainctl::spec::transform {

enum class AutoAugmentPolicy { imagenet, cifar10, svhn };
constexpr std::array<const char*, 3> enum_names(AutoAugmentPolicy) {
  return {"imagenet", "cifar10", "svhn"};
}

struct AutoAugment {
  static constexpr auto kSummary =
      "A pair of operations from a learnt policy, as torchvision's AutoAugment.";

  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(config::Describe<AutoAugment>& options) {
    options.field("policy", &AutoAugment::policy, "The data set that the policy was learnt on.");
    options.field("interpolation", &AutoAugment::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &AutoAugment::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255)
        .example("[124, 116, 104]");
  }
};

}  // namespace trainctl::spec::transform
