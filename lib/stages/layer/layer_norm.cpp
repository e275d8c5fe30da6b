#include "spec/layer/layer_norm.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

namespace trainctl::stages {
namespace {

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

void register_layer_layer_norm(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::LayerNorm>(
      "layer_norm", [](const auto& options, const auto& context) {
        return std::make_unique<LayerNormLayer>(options, context);
      });
}

}  // namespace trainctl::stages
