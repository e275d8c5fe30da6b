#pragma once

#include "spec/compatibility.hpp"
#include "spec/options/model.hpp"
#include "stage/module.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What the built-in models are made of: handles to named parameters and the maths on them, how
// parameters are drawn, and the check of what a model is built for.

namespace trainctl::stages {

enum class Bias { with, without };

struct Linear {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out], undefined without bias
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
};

struct Conv2d {
  at::Tensor weight;  // [out, in / groups, kernel, kernel]
  at::Tensor bias;    // [out], undefined without bias
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw) const;
};

/// Draws a weight of `shape` [out, in, ...] as nn.Linear and nn.Conv2d do: kaiming_uniform with a =
/// sqrt(5), which is uniform in +-1/sqrt(fan_in), from the global CPU generator.
at::Tensor draw_weight(at::IntArrayRef shape);
/// The bias that goes with it: uniform in +-1/sqrt(fan_in).
at::Tensor draw_bias(std::int64_t out, std::int64_t fan_in);

/// Writes over `x`, the output of a linear layer or a convolution, where the gradient allows it.
at::Tensor activate(spec::model::Activation activation, at::Tensor x);

/// Numbers of one sample. Throws Error(config) where a model context has an empty dimension or no
/// outputs.
std::int64_t checked_features(const stage::ModelContext& context);

/// A Module whose layers are the ones above, drawn in the order of construction.
class LayeredModule : public stage::Module {
  friend class Scope;  // gives it the tensors of blocks
};

/// A place in the tree of names that PyTorch's modules make: the weight of `scope / "layer1" / 0 /
/// "conv1"` is "layer1.0.conv1.weight". A block is built in a scope; its tensors go to the module
/// behind it, in the order in which they are made.
class Scope {
 public:
  explicit Scope(LayeredModule& module) : module_(&module) {}

  [[nodiscard]] Scope operator/(const std::string& child) const;
  /// The child of a Sequential.
  [[nodiscard]] Scope operator/(std::size_t child) const { return *this / std::to_string(child); }

  /// Each gives the tensor to the module and returns its handle.
  [[nodiscard]] at::Tensor parameter(const std::string& name, at::Tensor tensor) const;
  [[nodiscard]] at::Tensor buffer(const std::string& name, at::Tensor tensor) const;

 private:
  Scope(LayeredModule& module, std::string prefix) : module_(&module), prefix_(std::move(prefix)) {}

  LayeredModule* module_;
  std::string prefix_;  // "" or "layer1.0."
};

/// Draws the weight [out, in], and the bias if there is one, as nn.Linear does.
Linear make_linear(const Scope& scope, std::int64_t in, std::int64_t out, Bias bias = Bias::with);

/// A convolution with a square kernel, in the words of nn.Conv2d.
struct Conv2dShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::optional<std::int64_t> padding = {};  // absent: what keeps the size at stride 1
  Bias bias = Bias::without;
};

/// Draws the weight, and the bias if there is one, as nn.Conv2d does.
Conv2d make_conv2d(const Scope& scope, const Conv2dShape& shape);

/// nn.LayerNorm (Ba et al. 2016): the last extents of x, those of `weight`, by their mean and
/// deviation.
struct LayerNorm {
  at::Tensor weight;
  at::Tensor bias;
  double eps = 1e-5;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
  /// The channels of each pixel.
  [[nodiscard]] at::Tensor over_channels(const at::Tensor& x_nchw) const;
};

/// Ones and zeros of that shape.
LayerNorm make_layer_norm(const Scope& scope, at::IntArrayRef shape, double eps = 1e-5);

/// The context as the options of a model see it.
spec::ModelInput model_input(const stage::ModelContext& context);

/// Throws Error(config) of the first, if any.
void throw_first(const std::vector<spec::Refusal>& refusals);

/// Images have a channel, a height and a width, and no extent is empty. Throws Error(config).
void check_shape(const stage::ModelContext& context);

/// Throws Error(config) where a model with these options does not take such samples.
template <class Options>
void check_input(const Options& options, const stage::ModelContext& context) {
  throw_first(options.refusals(model_input(context)));
  check_shape(context);
}

/// Channels of the images that a model is built for. Throws Error(config) where the samples are no
/// images, and the first of `refusals`.
std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals);

/// The same, where the options of the model know what they refuse.
template <class Options>
std::int64_t checked_channels(const Options& options, const stage::ModelContext& context) {
  return checked_channels(context, options.refusals(model_input(context)));
}

/// What becomes of the linear layers that nn.Linear drew.
enum class LinearDraw {
  keep,     // ResNet
  normal,   // N(0, 0.01): MobileNet
  uniform,  // +-1/sqrt(outputs): EfficientNet
};

/// The last lines of torchvision's constructors: the weights of convolutions are drawn anew by
/// kaiming_normal_ (mode fan_out), linear ones as `linear` says, and their biases become 0. In the
/// order of the parameters, from the global CPU generator, so that a seed gives torchvision's
/// weights.
void initialize(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear);

// Initializers of torch.nn.init, step by step: the same seed gives PyTorch's bits. They fill a
// tensor anew, on the CPU and from its global generator.

/// Glorot & Bengio 2010: uniform, by the number of inputs and outputs of a [out, in] weight.
void redraw_xavier_uniform(const at::Tensor& weight);
/// Normal with the mean 0, redrawn within +-2 (not: within 2 deviations), as PyTorch's defaults.
void redraw_trunc_normal(const at::Tensor& tensor, double std);
void redraw_normal(const at::Tensor& tensor, double std);

}  // namespace trainctl::stages
