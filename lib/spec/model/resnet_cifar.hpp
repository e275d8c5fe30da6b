#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <array>

namespace trainctl::spec::model {

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
