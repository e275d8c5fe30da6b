#pragma once

#include "spec/model/baseline.hpp"
#include "stage/module.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

// What the built-in models are made of: handles to named parameters, and the maths on them.

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

 protected:
  Linear add_linear(const std::string& name, std::int64_t in, std::int64_t out,
                    Bias bias = Bias::with);
  Conv2d add_conv2d(const std::string& name, std::int64_t in, std::int64_t out,
                    std::int64_t kernel);
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

}  // namespace trainctl::stages
