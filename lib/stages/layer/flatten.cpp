#include "spec/layer/flatten.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

namespace trainctl::stages {

void register_layer_flatten(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Flatten>("flatten", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return x.flatten(1); });
  });
}

}  // namespace trainctl::stages
