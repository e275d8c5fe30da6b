#include "spec/layer/batch_norm2d.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/batch_norm.hpp"

namespace trainctl::stages {
namespace {

class BatchNorm2dLayer final : public LayeredModule {
 public:
  BatchNorm2dLayer(const spec::layer::BatchNorm2d& options, const stage::LayerContext& context)
      : norm_(make_batch_norm2d(Scope(*this), context.input.shape[0],
                                {.eps = options.eps, .momentum = options.momentum})) {}

  at::Tensor forward(const at::Tensor& inputs_nchw) override { return norm_(inputs_nchw, mode()); }

 private:
  BatchNorm2d norm_;
};

}  // namespace

void register_layer_batch_norm2d(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::BatchNorm2d>(
      "batch_norm2d", [](const auto& options, const auto& context) {
        return std::make_unique<BatchNorm2dLayer>(options, context);
      });
}

}  // namespace trainctl::stages
