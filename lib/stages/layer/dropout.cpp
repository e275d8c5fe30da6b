#include "spec/layer/dropout.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/dropout.h>

namespace trainctl::stages {

void register_layer_dropout(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Dropout>("dropout", [](const auto& options, const auto&) {
    return make_function_layer([p = options.p](const at::Tensor& x, stage::RunMode mode) {
      return at::dropout(x, p, mode == stage::RunMode::train);
    });
  });
}

}  // namespace trainctl::stages
