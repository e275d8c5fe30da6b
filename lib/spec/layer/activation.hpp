#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

#include <array>

namespace trainctl::spec::layer {

struct Relu {
  static constexpr auto kSummary = "Rectified linear unit, max(0, x), as torch's ReLU.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Relu>&) {}
};

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

struct Silu {
  static constexpr auto kSummary = "x times its sigmoid (Elfwing et al. 2017), as torch's SiLU.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Silu>&) {}
};

struct Tanh {
  static constexpr auto kSummary = "Hyperbolic tangent, as torch's Tanh.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Tanh>&) {}
};

struct Sigmoid {
  static constexpr auto kSummary = "1 / (1 + exp(-x)), as torch's Sigmoid.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Sigmoid>&) {}
};

struct LogSoftmax {
  static constexpr auto kSummary =
      "Log-probabilities over the last dimension, as torch's LogSoftmax: what nll takes.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<LogSoftmax>&) {}
};

}  // namespace trainctl::spec::layer
