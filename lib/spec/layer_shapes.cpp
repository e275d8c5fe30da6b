#include "spec/layer_shapes.hpp"

#include "spec/stage_headers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace trainctl::spec {
namespace layer {

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

LayerStep no_image() {
  return {{}, "its input must be an image, C x H x W", "put it before 'flatten' and 'linear'"};
}

LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels) {
  if (shape.size() != 3) return no_image();
  const std::int64_t span = window.dilation * (window.kernel_size - 1) + 1;
  Shape out{channels};
  for (const std::size_t axis : {1U, 2U}) {
    const std::int64_t room = shape[axis] + 2 * window.padding;
    if (span > room) {
      return {{},
              fmt::format("a window of {0}x{0} is larger than its input", span),
              "make 'kernel_size' smaller, or leave out a layer that shrinks the image"};
    }
    out.push_back((room - span) / window.stride + 1);
  }
  return {out, {}, {}};
}

LayerStep Conv2d::after(const LayerInput& input) const {
  LayerStep step = slid(input.shape, {kernel_size, stride, padding, dilation}, out_channels);
  if (!step.problem.empty()) return step;
  const std::int64_t in_channels = input.shape[0];
  if (in_channels % groups != 0 || out_channels % groups != 0) {
    step.problem =
        fmt::format("{} groups must divide the {} input channels and the {} output channels",
                    groups, in_channels, out_channels);
    step.hint = "write 'groups: 1', or a number that divides both";
  }
  return step;
}

LayerStep Pool2d::after(const LayerInput& input) const {
  const std::int64_t channels = input.shape.empty() ? 0 : input.shape[0];
  LayerStep after = slid(input.shape, {kernel_size, step(), padding}, channels);
  if (after.problem.empty() && padding * 2 > kernel_size) {
    after.problem = fmt::format("a padding of {} is more than half of a window of {}x{}", padding,
                                kernel_size, kernel_size);
    after.hint = fmt::format("write 'padding: {}' or less", kernel_size / 2);
  }
  return after;
}

}  // namespace layer

namespace {

using layer::LayerInput;
using layer::LayerStep;
using layer::Shape;
using layer::shape_text;

template <class Options>
void ask_layer(const config::Stage& stage, const LayerInput& input, LayerStep& step) {
  if constexpr (requires(const Options& options) { options.after(input); }) {
    if (stage.options_type != typeid(Options)) return;
    constexpr bool kTakesTokens = requires { Options::kTakesTokens; };
    if (input.tokens && !kTakesTokens) {
      step = {{},
              "its input must be numbers, got tokens",
              "start with an embedding, such as {type: embedding, embedding_dim: 64}"};
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
  if (const auto* branches = layer.get_if<layer::Residual>()) {
    step.shape = LayerWalk().through(branches->layers, input, "layers.").value_or(Shape{});
    return step;
  }
#define TRAINCTL_ASK(kind, name, Type) ask_layer<kind::Type>(layer, input, step);
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
  const auto shortcut = through(options.shortcut, input, place + ".shortcut.");
  if (branch && shortcut && *branch != *shortcut) {
    refuse(layer, input, place,
           fmt::format("its layers output {}, but its shortcut outputs {}", shape_text(*branch),
                       shape_text(*shortcut)),
           "make both shapes equal, for example with a conv2d of kernel_size 1 in 'shortcut'");
  }
  return branch;
}

void LayerWalk::refuse(const config::Stage& layer, const LayerInput& input,
                       const std::string& place, const std::string& problem, std::string hint) {
  refusals_.push_back({fmt::format("{} cannot take an input of shape {}: {}", named(layer, place),
                                   shape_text(input.shape), problem),
                       std::move(hint), place});
}

}  // namespace trainctl::spec
