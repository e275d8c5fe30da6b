#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer_shapes.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

namespace trainctl::spec::layer {

struct Linear {
  static constexpr auto kSummary =
      "Fully connected layer on the last dimension of its input, as torch's Linear.";

  config::Auto<std::int64_t> out_features;
  bool bias = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    Shape shape = input.shape;
    shape.back() = out_features.value_or(input.outputs);
    return {shape, {}, {}};
  }
  static void describe(auto& options) {
    options.field("out_features", &Linear::out_features,
                  {.at_least = 1, .at_most = 1 << 24, .example = "64"},
                  "Size of the output; auto: as the data requires, one per class.");
    options.field("bias", &Linear::bias, "Adds a learnable bias.");
  }
};

struct Embedding {
  static constexpr auto kSummary =
      "A learnable vector for each token of the vocabulary (vocab_size), as torch's Embedding.";

  static constexpr bool kTakesTokens = true;
  std::int64_t embedding_dim = 0;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    if (!input.tokens) return {{}, "its input must be tokens, got numbers", "remove it"};
    Shape shape = input.shape;
    shape.push_back(embedding_dim);
    return {shape, {}, {}};
  }
  static void describe(auto& options) {
    options.field("embedding_dim", &Embedding::embedding_dim,
                  {.required = true, .at_least = 1, .at_most = 1 << 20, .example = "64"},
                  "Size of each embedding vector.");
  }
};

struct Conv2d {
  static constexpr auto kSummary = "Convolution with a square kernel, as torch's Conv2d.";

  std::int64_t out_channels = 0;
  std::int64_t kernel_size = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;

  static void describe(auto& options) {
    options.field("out_channels", &Conv2d::out_channels,
                  {.required = true, .at_least = 1, .at_most = 1 << 20, .example = "16"},
                  "Number of output channels.");
    options.field("kernel_size", &Conv2d::kernel_size,
                  {.required = true, .at_least = 1, .at_most = 1 << 16, .example = "3"},
                  "Height and width of the kernel.");
    options.field("stride", &Conv2d::stride, {.at_least = 1, .at_most = 1 << 16},
                  "Stride of the convolution, in pixels.");
    options.field("padding", &Conv2d::padding, {.at_least = 0, .at_most = 1 << 16},
                  "Zero padding on each side, in pixels.");
    options.field("dilation", &Conv2d::dilation, {.at_least = 1, .at_most = 1 << 16},
                  "Spacing between kernel elements, in pixels.");
    options.field("groups", &Conv2d::groups, {.at_least = 1, .at_most = 1 << 20},
                  "Number of channel groups that are convolved separately; for a depthwise "
                  "convolution, the number of channels.");
    options.field("bias", &Conv2d::bias, "Adds a learnable bias.");
  }
};

/// Options of max_pool2d and avg_pool2d.
struct Pool2d {
  std::int64_t kernel_size = 0;
  std::optional<std::int64_t> stride;
  std::int64_t padding = 0;

  [[nodiscard]] std::int64_t step() const { return stride.value_or(kernel_size); }
  [[nodiscard]] LayerStep after(const LayerInput& input) const;

  static void describe(auto& options) {
    options.field("kernel_size", &Pool2d::kernel_size,
                  {.required = true, .at_least = 1, .at_most = 1 << 16, .example = "2"},
                  "Height and width of the window.");
    options.field("stride", &Pool2d::stride, {.at_least = 1, .at_most = 1 << 16, .example = "2"},
                  "Stride of the window, in pixels; absent: kernel_size.");
    options.field("padding", &Pool2d::padding, {.at_least = 0, .at_most = 1 << 15},
                  "Padding on each side, in pixels; at most half of kernel_size.");
  }
};

struct MaxPool2d : Pool2d {
  static constexpr auto kSummary = "Maximum of each square window, as torch's MaxPool2d.";
};

struct AvgPool2d : Pool2d {
  static constexpr auto kSummary = "Mean of each square window, as torch's AvgPool2d.";
};

struct AdaptiveAvgPool2d {
  static constexpr auto kSummary =
      "Average pooling to a fixed output size, as torch's AdaptiveAvgPool2d.";

  std::int64_t output_size = 1;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    if (input.shape.size() != 3) return no_image();
    return {{input.shape[0], output_size, output_size}, {}, {}};
  }
  static void describe(auto& options) {
    options.field("output_size", &AdaptiveAvgPool2d::output_size,
                  {.at_least = 1, .at_most = 1 << 16},
                  "Height and width of the output; 1: the mean of each channel.");
  }
};

struct BatchNorm2d {
  static constexpr auto kSummary =
      "Normalizes each channel by its mean and standard deviation over the batch (Ioffe & Szegedy "
      "2015), as torch's BatchNorm2d.";

  double eps = 1e-5;
  double momentum = 0.1;

  [[nodiscard]] static LayerStep after(const LayerInput& input) {
    if (input.shape.size() != 3) return no_image();
    return {input.shape, {}, {}};
  }
  static void describe(auto& options) {
    options.field("eps", &BatchNorm2d::eps, {.above = 0}, "Added to the variance.");
    options.field("momentum", &BatchNorm2d::momentum, {.at_least = 0, .at_most = 1},
                  "Weight of each batch in the running mean and variance that evaluation uses.");
  }
};

struct LayerNorm {
  static constexpr auto kSummary =
      "Normalizes the last dimensions of each sample (Ba et al. 2016), as torch's LayerNorm.";

  std::int64_t dims = 1;
  double eps = 1e-5;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    const auto extents = static_cast<std::int64_t>(input.shape.size());
    if (dims <= extents) return {input.shape, {}, {}};
    return {input.shape, fmt::format("its input has fewer than {} dimensions to normalize", dims),
            fmt::format("write 'dims: {}' or less", extents)};
  }
  static void describe(auto& options) {
    options.field("dims", &LayerNorm::dims, {.at_least = 1, .at_most = 8},
                  "Number of last dimensions to normalize over; 3: a whole image.");
    options.field("eps", &LayerNorm::eps, {.above = 0}, "Added to the variance.");
  }
};

/// The base of elementwise layers.
struct KeepsShape {
  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
};

struct Relu : KeepsShape {
  static constexpr auto kSummary = "Rectified linear unit, max(0, x), as torch's ReLU.";
};

enum class Approximate { none, tanh };
constexpr std::array<const char*, 2> enum_names(Approximate) { return {"none", "tanh"}; }

struct Gelu : KeepsShape {
  static constexpr auto kSummary =
      "Gaussian error linear unit (Hendrycks & Gimpel 2016), as torch's GELU.";

  Approximate approximate = Approximate::none;

  static void describe(auto& options) {
    options.field("approximate", &Gelu::approximate,
                  "none: exact; tanh: the approximation that GPT-2 uses, a little faster.");
  }
};

struct Silu : KeepsShape {
  static constexpr auto kSummary =
      "Sigmoid linear unit, x * sigmoid(x) (Elfwing et al. 2017), as torch's SiLU.";
};

struct Tanh : KeepsShape {
  static constexpr auto kSummary = "Hyperbolic tangent, as torch's Tanh.";
};

struct Sigmoid : KeepsShape {
  static constexpr auto kSummary = "1 / (1 + exp(-x)), as torch's Sigmoid.";
};

struct LogSoftmax : KeepsShape {
  static constexpr auto kSummary =
      "Log-probabilities over the last dimension, as torch's LogSoftmax; required by the loss nll.";
};

struct Dropout : KeepsShape {
  static constexpr auto kSummary =
      "Zeroes elements at random during training (Srivastava et al. 2014), as torch's Dropout.";

  double p = 0.5;

  static void describe(auto& options) {
    options.field("p", &Dropout::p, {.at_least = 0, .below = 1},
                  "Probability that an element is zeroed.");
  }
};

struct Flatten {
  static constexpr auto kSummary = "Flattens each sample to one dimension, as torch's Flatten.";

  [[nodiscard]] static LayerStep after(const LayerInput& input) {
    const Shape& shape = input.shape;
    return {{std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())},
            {},
            {}};
  }
};

/// LayerWalk computes the shapes within the lists of layers.
struct Residual {
  static constexpr auto kSummary =
      "Residual connection: adds the output of a list of layers to their input, or to the output "
      "of shortcut layers (He et al. 2015).";

  std::vector<config::Stage> layers;
  std::vector<config::Stage> shortcut;

  static void describe(auto& options) {
    options.stages("layers", &Residual::layers, "layer",
                   {.required = true,
                    .not_empty = true,
                    .example = "[{type: conv2d, out_channels: 16, kernel_size: 3, padding: 1}]"},
                   "Layers of the branch; their parameters are named N.layers.0.weight and so on, "
                   "where N is the index of this layer.");
    options.stages("shortcut", &Residual::shortcut, "layer",
                   {.example = "[{type: conv2d, out_channels: 32, kernel_size: 1, stride: 2}]"},
                   "Layers of the shortcut, if the branch changes the shape; empty: identity.");
  }
};

}  // namespace trainctl::spec::layer
