#include "spec/layer/linear.hpp"

#include "stages/builtin.hpp"
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

}  // namespace

void register_layer_linear(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::Linear, LinearLayer>("linear");
}

void register_layer_embedding(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::Embedding, EmbeddingLayer>("embedding");
}

}  // namespace trainctl::stages
