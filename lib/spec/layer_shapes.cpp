#include "spec/layer_shapes.hpp"

#include "spec/stage_headers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace trainctl::spec {
namespace layer {

LayerInput first_input(const ModelInput& input) {
  const SampleKind& kind = input.kind;
  const bool tokens = kind.inputs == Inputs::tokens;
  return {input.shape, tokens, input.outputs, kind.vocab_size,
          tokens && kind.padding_id >= 0 ? input.shape.at(0) : 0};
}

std::int64_t values_in(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

LayerStep no_image() {
  return {{}, "its input must be an image, C x H x W", "put it before 'flatten' and 'linear'"};
}

LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels) {
  const std::int64_t span = window.dilation * (window.kernel_size - 1) + 1;
  Shape out{channels};
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    const std::int64_t room = shape[axis] + 2 * window.padding;
    if (span > room) {
      const std::vector<std::int64_t> extents(shape.size() - 1, span);
      return {{},
              fmt::format("a window of {} is larger than its input", shape_text(extents)),
              "make 'kernel_size' smaller, or leave out a layer that shrinks the input"};
    }
    out.push_back((room - span) / window.stride + 1);
  }
  return {out, {}, {}};
}

namespace {

constexpr auto kRowsHint =
    "make an image a sequence of its rows with {type: flatten, start_dim: 1, end_dim: 2}";

LayerStep no_sequence() {
  return {{}, "its input must be a sequence of vectors, T x E", kRowsHint};
}

/// Adds a problem to `step`, unless it has one.
void refuse_if(bool condition, LayerStep& step, std::string problem, std::string hint) {
  if (!condition || !step.problem.empty()) return;
  step.problem = std::move(problem);
  step.hint = std::move(hint);
}

LayerStep with_groups(LayerStep step, const Convolution& layer, std::int64_t in_channels) {
  refuse_if(in_channels % layer.groups != 0 || layer.out_channels % layer.groups != 0, step,
            fmt::format("{} groups must divide the {} input channels and the {} output channels",
                        layer.groups, in_channels, layer.out_channels),
            "write 'groups: 1', or a number that divides both");
  return step;
}

LayerStep convolved(const Convolution& layer, const Shape& shape) {
  const Window window{layer.kernel_size, layer.stride, layer.padding, layer.dilation};
  return with_groups(slid(shape, window, layer.out_channels), layer, shape[0]);
}

/// Refuses a norm over a single value, which is 0 after the norm.
LayerStep normalized(const LayerInput& input, std::int64_t values) {
  LayerStep step{input.shape, {}, {}};
  refuse_if(values == 1, step, "it would normalize each value alone, to 0",
            "put it before the layers that shrink the image");
  return step;
}

LayerStep attended(const LayerInput& input, std::int64_t heads) {
  if (input.shape.size() != 2) return no_sequence();
  LayerStep step{input.shape, {}, {}};
  refuse_if(input.shape[1] % heads != 0, step,
            fmt::format("{} heads must divide its {} features", heads, input.shape[1]),
            "change the number of heads, or add a linear layer with a multiple of it before");
  return step;
}

}  // namespace

LayerStep Conv1d::after(const LayerInput& input) const {
  if (input.shape.size() == 2) return convolved(*this, input.shape);
  return {{}, "its input must have channels and a length, C x L", kRowsHint};
}

LayerStep Conv2d::after(const LayerInput& input) const {
  return input.shape.size() == 3 ? convolved(*this, input.shape) : no_image();
}

LayerStep ConvTranspose2d::after(const LayerInput& input) const {
  if (input.shape.size() != 3) return no_image();
  const auto extent = [&](std::int64_t size) {
    return (size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1;
  };
  LayerStep step{{out_channels, extent(input.shape[1]), extent(input.shape[2])}, {}, {}};
  const std::int64_t least = std::max(stride, dilation);
  refuse_if(output_padding >= least, step,
            fmt::format("an output_padding of {} is not less than its stride or dilation ({})",
                        output_padding, least),
            fmt::format("write 'output_padding: {}' or less", least - 1));
  refuse_if(step.shape[1] < 1 || step.shape[2] < 1, step,
            fmt::format("a padding of {} removes the whole output", padding),
            "make 'padding' smaller");
  return with_groups(std::move(step), *this, input.shape[0]);
}

LayerStep Pool2d::after(const LayerInput& input) const {
  if (input.shape.size() != 3) return no_image();
  LayerStep after = slid(input.shape, {kernel_size, step(), padding}, input.shape[0]);
  refuse_if(padding * 2 > kernel_size, after,
            fmt::format("a padding of {} is more than half of a window of {}x{}", padding,
                        kernel_size, kernel_size),
            fmt::format("write 'padding: {}' or less", kernel_size / 2));
  return after;
}

LayerStep Upsample::after(const LayerInput& input) const {
  if (input.shape.size() != 3) return no_image();
  const auto extent = [&](std::int64_t before) {
    if (size) return *size;
    const double factor = scale_factor.value_or(1);
    return static_cast<std::int64_t>(static_cast<double>(before) * factor);
  };
  LayerStep step{{input.shape[0], extent(input.shape[1]), extent(input.shape[2])}, {}, {}};
  refuse_if(size.has_value() == scale_factor.has_value(), step,
            "it must have either 'size' or 'scale_factor'", "write one of them");
  refuse_if(align_corners && mode == UpsampleMode::nearest, step,
            "'align_corners' has no meaning for 'mode: nearest'",
            "write 'mode: bilinear', or remove 'align_corners'");
  refuse_if(step.shape[1] < 1 || step.shape[2] < 1, step, "its output would be empty",
            "make 'scale_factor' larger");
  return step;
}

LayerStep GroupNorm::after(const LayerInput& input) const {
  const std::int64_t channels = input.shape[0];
  LayerStep step = normalized(input, values_in(input.shape) / num_groups);
  refuse_if(channels % num_groups != 0, step,
            fmt::format("{} groups must divide its {} channels", num_groups, channels),
            "write 'num_groups: 1', or a number that divides the channels");
  return step;
}

LayerStep InstanceNorm2d::after(const LayerInput& input) {
  if (input.shape.size() != 3) return no_image();
  return normalized(input, input.shape[1] * input.shape[2]);
}

LayerStep Prelu::after(const LayerInput& input) const {
  LayerStep step{input.shape, {}, {}};
  refuse_if(
      num_parameters != 1 && num_parameters != input.shape[0], step,
      fmt::format("{} parameters must be 1, or its {} channels", num_parameters, input.shape[0]),
      fmt::format("write 'num_parameters: {}'", input.shape[0]));
  return step;
}

LayerStep Flatten::after(const LayerInput& input) const {
  const auto extents = static_cast<std::int64_t>(input.shape.size());
  const std::int64_t end = end_dim == -1 ? extents : end_dim;
  if (start_dim > end || end > extents) {
    return {{},
            fmt::format("its dimensions from {} to {} do not exist", start_dim, end_dim),
            fmt::format("its dimensions are 1 to {}", extents)};
  }
  const auto begin = input.shape.begin();
  Shape shape(begin, begin + start_dim - 1);
  shape.push_back(values_in({begin + start_dim - 1, begin + end}));
  shape.insert(shape.end(), begin + end, input.shape.end());
  return {shape, {}, {}};
}

LayerStep Permute::after(const LayerInput& input) const {
  Shape sorted = dims;
  std::ranges::sort(sorted);
  Shape all(input.shape.size() + 1);
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all || dims[0] != 0) {
    return {{},
            fmt::format("'dims' must be 0 and then an order of its dimensions 1 to {}",
                        input.shape.size()),
            "write 'dims: [0, 2, 1]' to swap the two dimensions of a sequence"};
  }
  Shape shape;
  for (std::size_t i = 1; i < dims.size(); ++i)
    shape.push_back(input.shape[static_cast<std::size_t>(dims[i] - 1)]);
  return {shape, {}, {}};
}

LayerStep PositionalEmbedding::after(const LayerInput& input) const {
  if (input.shape.size() != 2) return no_sequence();
  LayerStep step{input.shape, {}, {}};
  refuse_if(num_embeddings.value_or(input.shape[0]) < input.shape[0], step,
            fmt::format("a sequence of {} has more positions than its {} vectors", input.shape[0],
                        num_embeddings.value_or(0)),
            fmt::format("write 'num_embeddings: {}' or more, or auto", input.shape[0]));
  return step;
}

LayerStep MultiheadAttention::after(const LayerInput& input) const {
  return attended(input, num_heads);
}

LayerStep TransformerEncoderLayer::after(const LayerInput& input) const {
  return attended(input, nhead);
}

LayerStep Recurrent::after(const LayerInput& input) const {
  if (input.shape.size() != 2) return no_sequence();
  const std::int64_t width = directions() * hidden_size;
  LayerStep step{{width}, {}, {}};
  if (output == RecurrentOutput::sequence) step.shape = {input.shape[0], width};
  refuse_if(dropout > 0 && num_layers == 1, step,
            "its dropout acts between stacked layers, but it has only one",
            "remove 'dropout', write 'num_layers: 2' or more, or add a dropout layer after it");
  refuse_if(packed && input.padded_length == 0, step,
            "'packed' needs texts that are padded to one length, and the samples are not",
            "remove 'packed', or use the data set 'text'");
  refuse_if(packed && input.padded_length != input.shape[0], step,
            fmt::format("'packed' needs one position for each of the {} tokens of a text",
                        input.padded_length),
            "remove 'packed', or the layers before that change the number of positions");
  return step;
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

bool has_layers(const config::Stage& layer) {
  return layer.get_if<layer::Residual>() != nullptr || layer.get_if<layer::Concat>() != nullptr;
}

}  // namespace

LayerStep step_of(const config::Stage& layer, const LayerInput& input) {
  if (has_layers(layer))
    return {LayerWalk().through({layer}, input, "layers.").value_or(Shape{}), {}, {}};
  LayerStep step;
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
    std::optional<Shape> shape = one(layers[i], input, here);
    if (!shape) return std::nullopt;
    input.shape = *std::move(shape);
    input.tokens = false;
  }
  return input.shape;
}

std::optional<Shape> LayerWalk::one(const config::Stage& layer, const LayerInput& input,
                                    const std::string& place) {
  if (layer.get_if<layer::Residual>() != nullptr) return residual(layer, input, place);
  if (layer.get_if<layer::Concat>() != nullptr) return concat(layer, input, place);
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

std::optional<Shape> LayerWalk::concat(const config::Stage& layer, const LayerInput& input,
                                       const std::string& place) {
  const auto& options = layer.as<layer::Concat>();
  const auto dim = static_cast<std::size_t>(options.dim - 1);  // without the batch
  std::vector<Shape> shapes;
  std::string texts;
  for (std::size_t i = 0; i < options.branches.size(); ++i) {
    auto shape =
        through(options.branches[i].layers, input, fmt::format("{}.branches.{}.layers.", place, i));
    if (!shape) continue;
    texts += (texts.empty() ? "" : " and ") + shape_text(*shape);
    shapes.push_back(*std::move(shape));
  }
  if (shapes.size() != options.branches.size()) return std::nullopt;
  Shape joined = shapes[0];
  bool fits = dim < joined.size();
  for (std::size_t i = 1; fits && i < shapes.size(); ++i) {
    Shape& other = shapes[i];
    fits = other.size() == joined.size();
    if (fits) joined[dim] += std::exchange(other[dim], shapes[0][dim]);
    fits = fits && other == shapes[0];
  }
  if (!fits) {
    refuse(
        layer, input, place,
        fmt::format("its branches output {}, which dimension {} cannot join", texts, options.dim),
        "make all other dimensions equal, or change 'dim': 1 is the first dimension");
    return std::nullopt;
  }
  return joined;
}

void LayerWalk::refuse(const config::Stage& layer, const LayerInput& input,
                       const std::string& place, const std::string& problem, std::string hint) {
  refusals_.push_back({fmt::format("{} cannot take an input of shape {}: {}", named(layer, place),
                                   shape_text(input.shape), problem),
                       std::move(hint), place});
}

}  // namespace trainctl::spec
