#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer_shapes.hpp"
#include "spec/options/sequence_layer.hpp"

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

/// The options of all convolutions.
struct Convolution {
  std::int64_t out_channels = 0;
  std::int64_t kernel_size = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;

  static void describe(auto& options) {
    options.field("out_channels", &Convolution::out_channels,
                  {.required = true, .at_least = 1, .at_most = 1 << 20, .example = "16"},
                  "Number of output channels.");
    options.field("kernel_size", &Convolution::kernel_size,
                  {.required = true, .at_least = 1, .at_most = 1 << 16, .example = "3"},
                  "Size of the kernel in each dimension.");
    options.field("stride", &Convolution::stride, {.at_least = 1, .at_most = 1 << 16},
                  "Stride of the convolution.");
    options.field("padding", &Convolution::padding, {.at_least = 0, .at_most = 1 << 16},
                  "Zero padding on each side; a transposed convolution removes as much from its "
                  "output.");
    options.field("dilation", &Convolution::dilation, {.at_least = 1, .at_most = 1 << 16},
                  "Spacing between kernel elements.");
    options.field("groups", &Convolution::groups, {.at_least = 1, .at_most = 1 << 20},
                  "Number of channel groups that are convolved separately; for a depthwise "
                  "convolution, the number of channels.");
    options.field("bias", &Convolution::bias, "Adds a learnable bias.");
  }
};

struct Conv1d : Convolution {
  static constexpr auto kSummary = "Convolution over the length of C x L, as torch's Conv1d.";

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
};

struct Conv2d : Convolution {
  static constexpr auto kSummary = "Convolution with a square kernel, as torch's Conv2d.";

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
};

struct ConvTranspose2d : Convolution {
  static constexpr auto kSummary =
      "Transposed convolution with a square kernel: the gradient of a convolution, which enlarges "
      "images by its stride (Zeiler et al. 2010), as torch's ConvTranspose2d.";

  std::int64_t output_padding = 0;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    Convolution::describe(options);
    options.field("output_padding", &ConvTranspose2d::output_padding,
                  {.at_least = 0, .at_most = 1 << 16},
                  "Added to the height and the width of the output; less than stride or dilation.");
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

/// Options of adaptive_avg_pool2d and adaptive_max_pool2d.
struct AdaptivePool2d {
  std::int64_t output_size = 1;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    if (input.shape.size() != 3) return no_image();
    return {{input.shape[0], output_size, output_size}, {}, {}};
  }
  static void describe(auto& options) {
    options.field("output_size", &AdaptivePool2d::output_size, {.at_least = 1, .at_most = 1 << 16},
                  "Height and width of the output; 1: one number per channel.");
  }
};

struct AdaptiveAvgPool2d : AdaptivePool2d {
  static constexpr auto kSummary =
      "Average pooling to a fixed output size, as torch's AdaptiveAvgPool2d.";
};

struct AdaptiveMaxPool2d : AdaptivePool2d {
  static constexpr auto kSummary =
      "Maximum pooling to a fixed output size, as torch's AdaptiveMaxPool2d.";
};

enum class UpsampleMode { nearest, bilinear };
constexpr std::array<const char*, 2> enum_names(UpsampleMode) { return {"nearest", "bilinear"}; }

struct Upsample {
  static constexpr auto kSummary = "Enlarges images to a size or by a factor, as torch's Upsample.";

  std::optional<std::int64_t> size;
  std::optional<double> scale_factor;
  UpsampleMode mode = UpsampleMode::nearest;
  std::optional<bool> align_corners;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("size", &Upsample::size, {.at_least = 1, .at_most = 1 << 16, .example = "32"},
                  "Height and width of the output; excludes scale_factor.");
    options.field("scale_factor", &Upsample::scale_factor,
                  {.above = 0, .at_most = 1 << 10, .example = "2"},
                  "Factor of the height and the width, which are rounded down; excludes size.");
    options.field("mode", &Upsample::mode,
                  "nearest: the nearest pixel; bilinear: interpolates between four pixels.");
    options.field("align_corners", &Upsample::align_corners, {.example = "true"},
                  "Only for bilinear. true: the corner pixels keep their values; absent or false: "
                  "the corners of the images coincide, not the centers of their corner pixels.");
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

/// Options of layer_norm and rms_norm.
struct LastDimensions {
  std::int64_t dims = 1;

  [[nodiscard]] LayerStep after(const LayerInput& input) const {
    const auto extents = static_cast<std::int64_t>(input.shape.size());
    if (dims <= extents) return {input.shape, {}, {}};
    return {input.shape, fmt::format("its input has fewer than {} dimensions to normalize", dims),
            fmt::format("write 'dims: {}' or less", extents)};
  }
  static void describe(auto& options) {
    options.field("dims", &LastDimensions::dims, {.at_least = 1, .at_most = 8},
                  "Number of last dimensions to normalize over; 3: a whole image.");
  }
};

struct LayerNorm : LastDimensions {
  static constexpr auto kSummary =
      "Normalizes the last dimensions of each sample (Ba et al. 2016), as torch's LayerNorm.";

  double eps = 1e-5;

  static void describe(auto& options) {
    LastDimensions::describe(options);
    options.field("eps", &LayerNorm::eps, {.above = 0}, "Added to the variance.");
  }
};

struct RmsNorm : LastDimensions {
  static constexpr auto kSummary =
      "Divides the last dimensions of each sample by their root mean square (Zhang & Sennrich "
      "2019), as torch's RMSNorm.";

  std::optional<double> eps;
  bool elementwise_affine = true;

  static void describe(auto& options) {
    LastDimensions::describe(options);
    options.field("eps", &RmsNorm::eps, {.above = 0, .example = "1e-6"},
                  "Added to the mean square; absent: the smallest step above 1 in the type of the "
                  "input, about 1.2e-7 in float32.");
    options.field("elementwise_affine", &RmsNorm::elementwise_affine,
                  "Multiplies by a learnable weight.");
  }
};

struct GroupNorm {
  static constexpr auto kSummary =
      "Normalizes groups of channels of each sample (Wu & He 2018), as torch's GroupNorm.";

  std::int64_t num_groups = 0;
  double eps = 1e-5;
  bool affine = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("num_groups", &GroupNorm::num_groups,
                  {.required = true, .at_least = 1, .at_most = 1 << 20, .example = "8"},
                  "Number of groups, which must divide the channels.");
    options.field("eps", &GroupNorm::eps, {.above = 0}, "Added to the variance.");
    options.field("affine", &GroupNorm::affine,
                  "Multiplies each channel by a learnable weight and adds a learnable bias.");
  }
};

struct InstanceNorm2d {
  static constexpr auto kSummary =
      "Normalizes each channel of each image (Ulyanov et al. 2016), as torch's InstanceNorm2d.";

  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;

  [[nodiscard]] static LayerStep after(const LayerInput& input);
  static void describe(auto& options) {
    options.field("eps", &InstanceNorm2d::eps, {.above = 0}, "Added to the variance.");
    options.field("momentum", &InstanceNorm2d::momentum, {.at_least = 0, .at_most = 1},
                  "Weight of each batch in the running mean and variance.");
    options.field("affine", &InstanceNorm2d::affine,
                  "Multiplies each channel by a learnable weight and adds a learnable bias.");
    options.field("track_running_stats", &InstanceNorm2d::track_running_stats,
                  "Evaluation uses a running mean and variance instead of those of the image.");
  }
};

/// The base of elementwise layers.
struct KeepsShape {
  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
};

struct Relu : KeepsShape {
  static constexpr auto kSummary = "Rectified linear unit, max(0, x), as torch's ReLU.";
};

struct LeakyRelu : KeepsShape {
  static constexpr auto kSummary =
      "max(0, x) + negative_slope * min(0, x) (Maas et al. 2013), as torch's LeakyReLU.";

  double negative_slope = 0.01;

  static void describe(auto& options) {
    options.field("negative_slope", &LeakyRelu::negative_slope, "Slope for negative inputs.");
  }
};

struct Prelu {
  static constexpr auto kSummary =
      "Leaky ReLU with a learnable slope (He et al. 2015), as torch's PReLU.";

  std::int64_t num_parameters = 1;
  double init = 0.25;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("num_parameters", &Prelu::num_parameters, {.at_least = 1, .at_most = 1 << 20},
                  "1: one slope for all channels; otherwise the number of channels.");
    options.field("init", &Prelu::init, "Initial slope for negative inputs.");
  }
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
  static constexpr auto kSummary =
      "Flattens dimensions into one, as torch's Flatten; dimension 0 is the batch.";

  std::int64_t start_dim = 1;
  std::int64_t end_dim = -1;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("start_dim", &Flatten::start_dim, {.at_least = 1, .at_most = 8},
                  "First dimension to flatten.");
    options.field("end_dim", &Flatten::end_dim, {.at_least = -1, .at_most = 8},
                  "Last dimension to flatten; -1: the last one. With 2, an image C x H x W becomes "
                  "a sequence of rows, C*H x W.");
  }
};

struct Permute {
  static constexpr auto kSummary =
      "Reorders dimensions, as torchvision's Permute; dimension 0 is the batch.";

  std::vector<std::int64_t> dims;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;
  static void describe(auto& options) {
    options.field("dims", &Permute::dims,
                  {.required = true, .at_least = 0, .at_most = 8, .example = "[0, 2, 1]"},
                  "The new order of all dimensions, beginning with 0.");
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

struct ConcatBranch {
  std::vector<config::Stage> layers;

  static constexpr auto kSummary = "A list of layers.";
  static void describe(auto& options) {
    options.stages("layers", &ConcatBranch::layers, "layer",
                   {.example = "[{type: conv2d, out_channels: 16, kernel_size: 1}, relu]"},
                   "Layers of the branch, in order; empty: the input itself.");
  }
};

/// LayerWalk computes the shapes within the branches.
struct Concat {
  static constexpr auto kSummary =
      "Runs several branches on the same input and concatenates their outputs (Szegedy et al. "
      "2015).";

  std::vector<ConcatBranch> branches;
  std::int64_t dim = 1;

  static void describe(auto& options) {
    options.field("branches", &Concat::branches,
                  {.required = true,
                   .not_empty = true,
                   .example = "[{layers: [{type: conv2d, out_channels: 8, kernel_size: 1}]}, "
                              "{layers: []}]"},
                  "The branches; their parameters are named N.branches.0.0.weight and so on, where "
                  "N is the index of this layer.");
    options.field("dim", &Concat::dim, {.at_least = 1, .at_most = 8},
                  "Dimension of the concatenation; 0 is the batch, 1 the channels of an image.");
  }
};

}  // namespace trainctl::spec::layer
