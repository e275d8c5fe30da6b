#include "spec/layer/sigmoid.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/sigmoid.h>

namespace trainctl::stages {

void register_layer_sigmoid(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Sigmoid>("sigmoid", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::sigmoid(x); });
  });
}

}  // namespace trainctl::stages
