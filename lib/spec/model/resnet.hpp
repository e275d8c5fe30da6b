#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <array>

namespace trainctl::spec::model {

/// The options that all sizes share.
struct Resnet {
  bool zero_init_residual = false;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }

  static void describe(config::Describe<Resnet>& options) {
    options.field("zero_init_residual", &Resnet::zero_init_residual,
                  "Starts the last batch normalisation of each residual unit at 0, so that every "
                  "unit begins as the identity (Goyal et al. 2017).");
  }
};

struct Resnet18 : Resnet {
  static constexpr auto kSummary =
      "ResNet-18 (He et al. 2015), as torchvision's: 11.7 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet18>& options) { options.include<Resnet>(); }
};

struct Resnet34 : Resnet {
  static constexpr auto kSummary =
      "ResNet-34 (He et al. 2015), as torchvision's: 21.8 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet34>& options) { options.include<Resnet>(); }
};

struct Resnet50 : Resnet {
  static constexpr auto kSummary =
      "ResNet-50 (He et al. 2015), as torchvision's: 25.6 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet50>& options) { options.include<Resnet>(); }
};

struct Resnet101 : Resnet {
  static constexpr auto kSummary =
      "ResNet-101 (He et al. 2015), as torchvision's: 44.5 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet101>& options) { options.include<Resnet>(); }
};

struct Resnet152 : Resnet {
  static constexpr auto kSummary =
      "ResNet-152 (He et al. 2015), as torchvision's: 60.2 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet152>& options) { options.include<Resnet>(); }
};

struct SeResnet50 : Resnet {
  static constexpr auto kSummary =
      "SE-ResNet-50 (Hu et al. 2017): ResNet-50 with squeeze-and-excitation in each unit; timm's "
      "names.";

  static void describe(config::Describe<SeResnet50>& options) { options.include<Resnet>(); }
};

enum class CifarShortcut { a, b };
constexpr std::array<const char*, 2> enum_names(CifarShortcut) { return {"a", "b"}; }

struct ResnetCifar {
  static constexpr auto kSummary =
      "The small ResNet for 32x32 images (He et al. 2015, section 4.2): 16, 32 and 64 channels.";

  std::int64_t depth = 20;
  CifarShortcut shortcut = CifarShortcut::a;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  /// A depth that is not 6n + 2 as well: n units of two layers in three stages, and two layers
  /// more.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(config::Describe<ResnetCifar>& options) {
    options
        .field("depth", &ResnetCifar::depth,
               "Layers with weights, 6n + 2: 20, 32, 44, 56 or 110 in the paper.")
        .at_least(8)
        .at_most(1202)
        .example("56");
    options.field("shortcut", &ResnetCifar::shortcut,
                  "Where the channels grow; a: zeros are added, without parameters, as in the "
                  "paper; b: a 1x1 convolution.");
  }
};

}  // namespace trainctl::spec::model
