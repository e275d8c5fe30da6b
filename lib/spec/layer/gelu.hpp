#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <array>

namespace trainctl::spec::layer {

enum class Approximate { none, tanh };
constexpr std::array<const char*, 2> enum_names(Approximate) { return {"none", "tanh"}; }

struct Gelu {
  static constexpr auto kSummary =
      "x times the normal distribution's share below it (Hendrycks & Gimpel 2016), as torch's "
      "GELU.";

  Approximate approximate = Approximate::none;

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Gelu>& options) {
    options.field("approximate", &Gelu::approximate, "tanh: GPT-2's formula, a little faster.");
  }
};

}  // namespace trainctl::spec::layer
