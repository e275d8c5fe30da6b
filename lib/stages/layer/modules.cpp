#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

namespace trainctl::stages {
namespace {

class LinearLayer final : public LayeredModule {
 public:
  LinearLayer(const spec::layer::Linear& options, const stage::LayerContext& context)
      : linear_(make_linear(Scope(*this), context.input.shape.back(),
                            options.out_features.value_or(context.input.outputs),
                            options.bias ? Bias::with : Bias::without)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return linear_(inputs); }

 private:
  Linear linear_;
};

class EmbeddingLayer final : public LayeredModule {
 public:
  EmbeddingLayer(const spec::layer::Embedding& options, const stage::LayerContext& context)
      : weight_(add_parameter(
            "weight",
            at::empty({context.input.outputs, options.embedding_dim}, at::kFloat).normal_())) {}

  at::Tensor forward(const at::Tensor& tokens) override { return at::embedding(weight_, tokens); }

 private:
  at::Tensor weight_;
};

class Conv2dLayer final : public LayeredModule {
 public:
  Conv2dLayer(const spec::layer::Conv2d& options, const stage::LayerContext& context)
      : conv_(make_conv2d(Scope(*this), {.in = context.input.shape[0],
                                         .out = options.out_channels,
                                         .kernel = options.kernel_size,
                                         .stride = options.stride,
                                         .dilation = options.dilation,
                                         .groups = options.groups,
                                         .padding = options.padding,
                                         .bias = options.bias ? Bias::with : Bias::without})) {}

  at::Tensor forward(const at::Tensor& inputs_nchw) override { return conv_(inputs_nchw); }

 private:
  Conv2d conv_;
};

class BatchNorm2dLayer final : public LayeredModule {
 public:
  BatchNorm2dLayer(const spec::layer::BatchNorm2d& options, const stage::LayerContext& context)
      : norm_(make_batch_norm2d(Scope(*this), context.input.shape[0],
                                {.eps = options.eps, .momentum = options.momentum})) {}

  at::Tensor forward(const at::Tensor& inputs_nchw) override { return norm_(inputs_nchw, mode()); }

 private:
  BatchNorm2d norm_;
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

}  // namespace

void register_layer_modules(stage::Catalog& catalog) {
  auto& layers = catalog.layers;
  layers.add_class<spec::layer::Linear, LinearLayer>("linear");
  layers.add_class<spec::layer::Embedding, EmbeddingLayer>("embedding");
  layers.add_class<spec::layer::Conv2d, Conv2dLayer>("conv2d");
  layers.add_class<spec::layer::BatchNorm2d, BatchNorm2dLayer>("batch_norm2d");
  layers.add_class<spec::layer::LayerNorm, LayerNormLayer>("layer_norm");
}

}  // namespace trainctl::stages
