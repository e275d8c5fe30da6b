#include "spec/layer/relu.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/relu.h>

namespace trainctl::stages {

void register_layer_relu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Relu>("relu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::relu(x); });
  });
}

}  // namespace trainctl::stages
