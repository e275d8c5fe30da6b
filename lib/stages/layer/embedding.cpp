#include "spec/layer/embedding.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

namespace trainctl::stages {
namespace {

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

void register_layer_embedding(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Embedding>(
      "embedding", [](const auto& options, const auto& context) {
        return std::make_unique<EmbeddingLayer>(options, context);
      });
}

}  // namespace trainctl::stages
