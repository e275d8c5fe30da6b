#include "spec/layer/conv2d.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

namespace trainctl::stages {
namespace {

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

}  // namespace

void register_layer_conv2d(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::Conv2d, Conv2dLayer>("conv2d");
}

}  // namespace trainctl::stages
