#include "spec/layer/normalization.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/layers.hpp"

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

void register_layer_batch_norm2d(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::BatchNorm2d, BatchNorm2dLayer>("batch_norm2d");
}

void register_layer_layer_norm(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::LayerNorm, LayerNormLayer>("layer_norm");
}

}  // namespace trainctl::stages
