#include "spec/layer/gelu.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/gelu.h>

namespace trainctl::stages {

void register_layer_gelu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Gelu>("gelu", [](const auto& options, const auto&) {
    const char* formula = options.approximate == spec::layer::Approximate::tanh ? "tanh" : "none";
    return make_function_layer([formula](const at::Tensor& x) { return at::gelu(x, formula); });
  });
}

}  // namespace trainctl::stages
