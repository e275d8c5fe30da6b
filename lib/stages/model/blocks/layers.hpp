#pragma once

#include "spec/compatibility.hpp"
#include "spec/options/model.hpp"
#include "stage/module.hpp"
#include "stage/stages.hpp"
#include "stages/model/blocks/fake_quantize.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The building blocks of the built-in models: layers as handles to named parameters, initializers,
// and checks of the model context.

namespace trainctl::stages {

enum class Bias { with, without };

struct Linear {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out], undefined without bias
  FakeQuantize weight_quantize = {};
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
};

struct Conv2d {
  at::Tensor weight;  // [out, in / groups, kernel, kernel]
  at::Tensor bias;    // [out], undefined without bias
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  FakeQuantize weight_quantize = {};
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw) const;
  /// Convolves with another weight and bias.
  [[nodiscard]] at::Tensor convolve(const at::Tensor& x_nchw, const at::Tensor& other_weight,
                                    const at::Tensor& other_bias) const;
};

/// Returns a weight of `shape` [out, in, ...] initialized like nn.Linear and nn.Conv2d:
/// kaiming_uniform with a = sqrt(5), which is uniform in +-1/sqrt(fan_in), from the global CPU
/// generator.
at::Tensor draw_weight(at::IntArrayRef shape);
/// Returns the corresponding bias, uniform in +-1/sqrt(fan_in).
at::Tensor draw_bias(std::int64_t out, std::int64_t fan_in);

/// Applies the activation, in place if the gradient allows it. `x` must be the output of a linear
/// layer or a convolution.
at::Tensor activate(spec::model::Activation activation, at::Tensor x);

/// Returns the number of values in one sample. Throws Error(config) if the context has an empty
/// dimension or no outputs.
std::int64_t checked_features(const stage::ModelContext& context);

/// A Module that consists of the layers above, initialized in the order of construction.
class LayeredModule : public stage::Module {
 protected:
  /// Lets the blocks that are built afterward round weights and activations as int8 does.
  void train_for_int8() { trains_for_int8_ = true; }

 private:
  friend class Scope;  // registers the tensors of blocks
  bool trains_for_int8_ = false;
};

/// A position in the tree of PyTorch module names: the weight of `scope / "layer1" / 0 / "conv1"`
/// is "layer1.0.conv1.weight". A block is built in a scope and registers its tensors with the
/// module in the order of their creation.
class Scope {
 public:
  explicit Scope(LayeredModule& module) : module_(&module) {}

  [[nodiscard]] Scope operator/(const std::string& child) const;
  /// Returns the scope of a child of a Sequential.
  [[nodiscard]] Scope operator/(std::size_t child) const { return *this / std::to_string(child); }

  /// Registers the tensor with the module and returns its handle.
  [[nodiscard]] at::Tensor parameter(const std::string& name, at::Tensor tensor) const;
  [[nodiscard]] at::Tensor buffer(const std::string& name, at::Tensor tensor) const;
  [[nodiscard]] bool trains_for_int8() const { return module_->trains_for_int8_; }
  /// Returns the mode of the module, which changes between training and evaluation.
  [[nodiscard]] const stage::RunMode* mode() const { return &module_->mode(); }

 private:
  Scope(LayeredModule& module, std::string prefix) : module_(&module), prefix_(std::move(prefix)) {}

  LayeredModule* module_;
  std::string prefix_;  // "" or "layer1.0."
};

/// Creates a layer initialized like nn.Linear.
Linear make_linear(const Scope& scope, std::int64_t in, std::int64_t out, Bias bias = Bias::with);

/// A convolution with a square kernel; the members are named like the arguments of nn.Conv2d.
struct Conv2dShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::optional<std::int64_t> padding = {};  // nullopt: keeps the size at stride 1
  Bias bias = Bias::without;
};

/// Creates a layer initialized like nn.Conv2d.
Conv2d make_conv2d(const Scope& scope, const Conv2dShape& shape);

/// nn.LayerNorm (Ba et al. 2016): normalizes the last dimensions of x, those of `weight`.
struct LayerNorm {
  at::Tensor weight;
  at::Tensor bias;  // undefined without bias
  double eps = 1e-5;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
  /// Normalizes the channels of each pixel.
  [[nodiscard]] at::Tensor normalize_channels(const at::Tensor& x_nchw) const;
};

/// Creates a layer of the given shape with weight 1 and bias 0.
LayerNorm make_layer_norm(const Scope& scope, at::IntArrayRef shape, double eps = 1e-5,
                          Bias bias = Bias::with);

/// Returns the rows of the weight of an embedding that is also the weight of the output layer. On a
/// CPU the embedding has a sparse gradient, which is added to the dense gradient of the output
/// layer: a dense one would be as large but almost all zeros, and slow. CUDA graphs do not support
/// sparse gradients.
at::Tensor embed_tied(const at::Tensor& weight, const at::Tensor& tokens);

/// Returns the context in the form that the option structs check.
spec::ModelInput model_input(const stage::ModelContext& context);

/// Throws Error(config) with the first refusal, if any.
void throw_first(const std::vector<spec::Refusal>& refusals);

/// Throws Error(config) unless images have channel, height and width, and no dimension is empty.
void check_shape(const stage::ModelContext& context);

/// Throws Error(config) if a model with these options does not accept such samples.
template <class Options>
void check_input(const Options& options, const stage::ModelContext& context) {
  throw_first(options.refusals(model_input(context)));
  check_shape(context);
}

/// Returns the number of image channels. Throws Error(config) if the samples are not images, or
/// with the first of `refusals`.
std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals);

/// Does the same with the refusals of the model's options.
template <class Options>
std::int64_t checked_channels(const Options& options, const stage::ModelContext& context) {
  return checked_channels(context, options.refusals(model_input(context)));
}

/// How linear layers are initialized after nn.Linear's defaults.
enum class LinearDraw {
  keep,     // ResNet
  normal,   // N(0, 0.01): MobileNet
  uniform,  // +-1/sqrt(outputs): EfficientNet
};

/// Does what the last lines of torchvision's constructors do: initializes convolution weights by
/// kaiming_normal_ (mode fan_out) and linear weights as `linear` says, and sets their biases to 0.
/// Draws in the order of the parameters from the global CPU generator, so that a seed gives
/// torchvision's weights.
void initialize(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear);

// Initializers that follow torch.nn.init step by step, so that a seed gives bit-identical weights.
// They overwrite a CPU tensor with draws from the global CPU generator.

/// Glorot & Bengio 2010: uniform, with bounds from the number of inputs and outputs of an [out, in]
/// weight.
void redraw_xavier_uniform(const at::Tensor& weight);
/// Normal with mean 0, truncated to +-2 (not to 2 standard deviations), like PyTorch's defaults.
void redraw_trunc_normal(const at::Tensor& tensor, double std);
/// Normal with mean 0.
void redraw_normal(const at::Tensor& tensor, double std);

}  // namespace trainctl::stages
