#pragma once

#include "spec/model/mlp.hpp"
#include "stage/module.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
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

}  // namespace trainctl::stages
