#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/resampling.hpp"

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

struct RandAugment {
  static constexpr auto kSummary =
      "Some random operations of one strength, as torchvision's RandAugment.";

  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(config::Describe<RandAugment>& options) {
    options
        .field("num_ops", &RandAugment::num_ops, "Operations on each image, one after the other.")
        .at_least(0)
        .at_most(100);
    options
        .field("magnitude", &RandAugment::magnitude,
               "Strength of all of them, below num_magnitude_bins.")
        .at_least(0);
    options.field("num_magnitude_bins", &RandAugment::num_magnitude_bins, "Number of strengths.")
        .at_least(2)
        .at_most(10'000);
    options.field("interpolation", &RandAugment::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &RandAugment::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255)
        .example("[124, 116, 104]");
  }
};

struct TrivialAugmentWide {
  static constexpr auto kSummary =
      "One random operation of random strength, as torchvision's TrivialAugmentWide.";

  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(config::Describe<TrivialAugmentWide>& options) {
    options
        .field("num_magnitude_bins", &TrivialAugmentWide::num_magnitude_bins,
               "Number of strengths.")
        .at_least(2)
        .at_most(10'000);
    options.field("interpolation", &TrivialAugmentWide::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &TrivialAugmentWide::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255)
        .example("[124, 116, 104]");
  }
};

}  // namespace trainctl::spec::transform
