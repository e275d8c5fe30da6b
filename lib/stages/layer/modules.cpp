#include "spec/options/layer.hpp"
#include "stage/checkpoint.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/conv_blocks.hpp"
#include "stages/model/blocks/fused_batch_norm.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <optional>
#include <vector>

namespace trainctl::stages {
namespace {

class LinearLayer final : public LayeredModule {
 public:
  LinearLayer(const spec::layer::Linear& options, const stage::LayerContext& context) {
    if (context.trains_for_int8) train_for_int8();
    linear_ = make_linear(Scope(*this), context.input.shape.back(),
                          options.out_features.value_or(context.input.outputs),
                          options.bias ? Bias::with : Bias::without);
  }

  at::Tensor forward(const at::Tensor& inputs) override { return linear_(inputs); }

 private:
  Linear linear_;
};

class EmbeddingLayer final : public LayeredModule {
 public:
  EmbeddingLayer(const spec::layer::Embedding& options, const stage::LayerContext& context)
      : weight_(add_parameter(
            "weight",
            at::empty({rows_for(context.input), options.embedding_dim}, at::kFloat).normal_())) {}

  at::Tensor forward(const at::Tensor& tokens) override { return at::embedding(weight_, tokens); }

 private:
  static std::int64_t rows_for(const spec::layer::LayerInput& input) {
    return input.vocab_size > 0 ? input.vocab_size : input.outputs;
  }

  at::Tensor weight_;
};

class Conv2dLayer final : public LayeredModule {
 public:
  Conv2dLayer(const spec::layer::Conv2d& options, const stage::LayerContext& context)
      : relu_follows_(context.relu_follows) {
    if (context.trains_for_int8) train_for_int8();
    const Scope scope(*this);
    conv_ = make_conv2d(scope, {.in = context.input.shape[0],
                                .out = options.out_channels,
                                .kernel = options.kernel_size,
                                .stride = options.stride,
                                .dilation = options.dilation,
                                .groups = options.groups,
                                .padding = options.padding,
                                .bias = options.bias ? Bias::with : Bias::without});
    if (context.rounds_input) input_quantize_ = make_activation_quantize(scope / "input");
    output_quantize_ = make_activation_quantize(scope);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    const at::Tensor y = conv_(input_quantize_(inputs_nchw));
    return output_quantize_(relu_follows_ ? at::relu(y) : y);
  }

  /// Computes this layer, the batch norm after it and, if `relu` is true, the relu after both.
  [[nodiscard]] at::Tensor with_norm(const BatchNorm2d& norm, const at::Tensor& inputs_nchw,
                                     bool relu) const {
    const at::Tensor y = convolve_for_int8(conv_, norm, input_quantize_(inputs_nchw), mode());
    return output_quantize_(relu ? at::relu(y) : y);
  }

 private:
  Conv2d conv_;
  bool relu_follows_;
  FakeQuantize input_quantize_;
  FakeQuantize output_quantize_;
};

/// The parameters of a layer, each undefined if the layer does not have it.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;
};

std::vector<std::int64_t> weight_shape(const spec::layer::Conv1d& options, std::int64_t in) {
  return {options.out_channels, in / options.groups, options.kernel_size};
}

std::vector<std::int64_t> weight_shape(const spec::layer::ConvTranspose2d& options,
                                       std::int64_t in) {
  return {in, options.out_channels / options.groups, options.kernel_size, options.kernel_size};
}

at::Tensor convolve(const spec::layer::Conv1d& options, const Affine& layer, const at::Tensor& x) {
  return at::conv1d(x, layer.weight, layer.bias, options.stride, options.padding, options.dilation,
                    options.groups);
}

at::Tensor convolve(const spec::layer::ConvTranspose2d& options, const Affine& layer,
                    const at::Tensor& x) {
  return at::conv_transpose2d(x, layer.weight, layer.bias, options.stride, options.padding,
                              options.output_padding, options.groups, options.dilation);
}

/// conv1d and conv_transpose2d.
template <class Options>
class ConvolutionLayer final : public LayeredModule {
 public:
  ConvolutionLayer(const Options& options, const stage::LayerContext& context) : options_(options) {
    const auto shape = weight_shape(options, context.input.shape[0]);
    const std::int64_t fan_in = c10::multiply_integers(shape.begin() + 1, shape.end());
    layer_.weight = add_parameter("weight", draw_weight(shape));
    if (options.bias) layer_.bias = add_parameter("bias", draw_bias(options.out_channels, fan_in));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return convolve(options_, layer_, inputs);
  }

 private:
  Options options_;
  Affine layer_;
};

class PreluLayer final : public LayeredModule {
 public:
  explicit PreluLayer(const spec::layer::Prelu& options)
      : weight_(add_parameter("weight",
                              at::full({options.num_parameters}, options.init, at::kFloat))) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    // Autocast makes inputs 16 bits wide, but on a CPU not the weight, and prelu needs one type.
    return at::prelu(inputs, weight_.to(inputs.scalar_type()));
  }

 private:
  at::Tensor weight_;
};

class BatchNorm2dLayer final : public LayeredModule {
 public:
  BatchNorm2dLayer(const spec::layer::BatchNorm2d& options, const stage::LayerContext& context)
      : norm_(make_batch_norm2d(Scope(*this), context.input.shape[0],
                                {.eps = options.eps, .momentum = options.momentum})),
        relu_follows_(context.relu_follows),
        convolution_(dynamic_cast<Conv2dLayer*>(context.convolution)) {}

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    if (convolution_ != nullptr) return convolution_->with_norm(norm_, inputs_nchw, relu_follows_);
    return relu_follows_ ? batch_norm_relu(norm_, inputs_nchw, mode())
                         : batch_norm(norm_, inputs_nchw, mode());
  }

 private:
  BatchNorm2d norm_;
  bool relu_follows_;
  const Conv2dLayer* convolution_;
};

at::IntArrayRef normalized(at::IntArrayRef shape, std::int64_t dims) {
  return shape.slice(shape.size() - static_cast<std::size_t>(dims));
}

class LayerNormLayer final : public LayeredModule {
 public:
  LayerNormLayer(const spec::layer::LayerNorm& options, const stage::LayerContext& context)
      : norm_(make_layer_norm(Scope(*this), normalized(context.input.shape, options.dims),
                              options.eps)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return norm_(inputs); }

 private:
  LayerNorm norm_;
};

class RmsNormLayer final : public LayeredModule {
 public:
  RmsNormLayer(const spec::layer::RmsNorm& options, const stage::LayerContext& context)
      : shape_(normalized(context.input.shape, options.dims).vec()), eps_(options.eps) {
    if (options.elementwise_affine) weight_ = add_parameter("weight", at::ones(shape_, at::kFloat));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    const bool widens = at::isReducedFloatingType(inputs.scalar_type());  // as for layer norms
    return at::rms_norm(widens ? inputs.to(at::kFloat) : inputs, shape_, weight_, eps_);
  }

 private:
  std::vector<std::int64_t> shape_;
  std::optional<double> eps_;
  std::optional<at::Tensor> weight_;  // rms_norm accepts no undefined tensor
};

Affine scale_and_shift(const Scope& scope, std::int64_t channels) {
  return {scope.parameter("weight", at::ones(channels, at::kFloat)),
          scope.parameter("bias", at::zeros(channels, at::kFloat))};
}

class GroupNormLayer final : public LayeredModule {
 public:
  GroupNormLayer(const spec::layer::GroupNorm& options, const stage::LayerContext& context)
      : options_(options) {
    if (options.affine) affine_ = scale_and_shift(Scope(*this), context.input.shape[0]);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return at::group_norm(inputs, options_.num_groups, affine_.weight, affine_.bias, options_.eps);
  }

 private:
  spec::layer::GroupNorm options_;
  Affine affine_;
};

class InstanceNorm2dLayer final : public LayeredModule {
 public:
  InstanceNorm2dLayer(const spec::layer::InstanceNorm2d& options,
                      const stage::LayerContext& context)
      : options_(options) {
    const std::int64_t channels = context.input.shape[0];
    if (options.affine) affine_ = scale_and_shift(Scope(*this), channels);
    if (options.track_running_stats) {
      running_mean_ = add_buffer("running_mean", at::zeros(channels, at::kFloat));
      running_var_ = add_buffer("running_var", at::ones(channels, at::kFloat));
      add_buffer("num_batches_tracked", at::zeros({}, at::kLong));  // which torch never changes
    }
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    const bool counted = stage::is_recomputing();  // in the averages
    return at::instance_norm(
        inputs_nchw, affine_.weight, affine_.bias, counted ? at::Tensor() : running_mean_,
        counted ? at::Tensor() : running_var_, training() || !options_.track_running_stats,
        options_.momentum, options_.eps, /*cudnn_enabled=*/true);
  }

 private:
  spec::layer::InstanceNorm2d options_;
  Affine affine_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
};

}  // namespace

void register_layer_modules(stage::Catalog& catalog) {
  auto& layers = catalog.layers;
  layers.add_class<spec::layer::Linear, LinearLayer>("linear");
  layers.add_class<spec::layer::Embedding, EmbeddingLayer>("embedding");
  layers.add_class<spec::layer::Conv2d, Conv2dLayer>("conv2d");
  layers.add_class<spec::layer::Conv1d, ConvolutionLayer<spec::layer::Conv1d>>("conv1d");
  layers.add_class<spec::layer::ConvTranspose2d, ConvolutionLayer<spec::layer::ConvTranspose2d>>(
      "conv_transpose2d");
  layers.add_class<spec::layer::Prelu, PreluLayer>("prelu");
  layers.add_class<spec::layer::BatchNorm2d, BatchNorm2dLayer>("batch_norm2d");
  layers.add_class<spec::layer::LayerNorm, LayerNormLayer>("layer_norm");
  layers.add_class<spec::layer::RmsNorm, RmsNormLayer>("rms_norm");
  layers.add_class<spec::layer::GroupNorm, GroupNormLayer>("group_norm");
  layers.add_class<spec::layer::InstanceNorm2d, InstanceNorm2dLayer>("instance_norm2d");
}

}  // namespace trainctl::stages
