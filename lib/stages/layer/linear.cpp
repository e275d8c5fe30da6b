#include "spec/layer/linear.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

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

}  // namespace

void register_layer_linear(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Linear>("linear", [](const auto& options, const auto& context) {
    return std::make_unique<LinearLayer>(options, context);
  });
}

}  // namespace trainctl::stages
