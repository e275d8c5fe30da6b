#include "spec/layer/silu.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/silu.h>

namespace trainctl::stages {

void register_layer_silu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Silu>("silu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::silu(x); });
  });
}

}  // namespace trainctl::stages
