#include "spec/layer/tanh.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/tanh.h>

namespace trainctl::stages {

void register_layer_tanh(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Tanh>("tanh", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::tanh(x); });
  });
}

}  // namespace trainctl::stages
