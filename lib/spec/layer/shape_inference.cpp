#include "spec/layer/shape_inference.hpp"

#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::spec {
namespace {

using layer::LayerInput;
using layer::LayerStep;
using layer::Shape;
using layer::shape_text;

template <class Options>
void ask(const config::Stage& stage, const LayerInput& input, LayerStep& step) {
  if constexpr (requires(const Options& options) { options.after(input); }) {
    if (stage.options_type != typeid(Options)) return;
    constexpr bool kTakesTokens = requires { Options::kTakesTokens; };
    if (input.tokens && !kTakesTokens) {
      step = {{},
              "these are tokens, and it takes numbers",
              "begin with an embedding, such as {type: embedding, embedding_dim: 64}"};
      return;
    }
    step = stage.as<Options>().after(input);
  }
}

std::string named(const config::Stage& layer, const std::string& place) {
  return fmt::format("layer {} ({})", place.substr(std::string_view("layers.").size()), layer.type);
}

}  // namespace

LayerStep step_of(const config::Stage& layer, const LayerInput& input) {
  LayerStep step;
  if (layer.options_type == typeid(layer::Residual)) {
    LayerWalk walk;
    const auto& branches = layer.as<layer::Residual>();
    step.shape = walk.through(branches.layers, input, "layers.").value_or(Shape{});
    return step;
  }
#define TRAINCTL_ASK(kind, name, Type) ask<kind::Type>(layer, input, step);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ASK)
#undef TRAINCTL_ASK
  return step;
}

std::optional<Shape> LayerWalk::through(const std::vector<config::Stage>& layers, LayerInput input,
                                        const std::string& place) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i]) return std::nullopt;
    const std::string here = place + std::to_string(i);
    std::optional<Shape> shape = layers[i].options_type == typeid(layer::Residual)
                                     ? residual(layers[i], input, here)
                                     : one(layers[i], input, here);
    if (!shape) return std::nullopt;
    input.shape = *std::move(shape);
    input.tokens = false;
  }
  return input.shape;
}

std::optional<Shape> LayerWalk::one(const config::Stage& layer, const LayerInput& input,
                                    const std::string& place) {
  LayerStep step = step_of(layer, input);
  if (!step.problem.empty()) refuse(layer, input, place, step.problem, std::move(step.hint));
  if (step.shape.empty()) return std::nullopt;
  return std::move(step.shape);
}

std::optional<Shape> LayerWalk::residual(const config::Stage& layer, const LayerInput& input,
                                         const std::string& place) {
  const auto& options = layer.as<layer::Residual>();
  const auto branch = through(options.layers, input, place + ".layers.");
  const auto beside = through(options.shortcut, input, place + ".shortcut.");
  if (branch && beside && *branch != *beside) {
    refuse(layer, input, place,
           fmt::format("its layers give {}, and what they are added to is {}", shape_text(*branch),
                       shape_text(*beside)),
           "give both the same shape: 'shortcut' takes layers, such as a conv2d of kernel_size 1");
  }
  return branch;
}

void LayerWalk::refuse(const config::Stage& layer, const LayerInput& input,
                       const std::string& place, const std::string& problem, std::string hint) {
  refusals_.push_back(
      {fmt::format("{} gets {}: {}", named(layer, place), shape_text(input.shape), problem),
       std::move(hint), place});
}

}  // namespace trainctl::spec
