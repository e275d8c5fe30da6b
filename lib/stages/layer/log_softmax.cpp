#include "spec/layer/log_softmax.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/log_softmax.h>

namespace trainctl::stages {

void register_layer_log_softmax(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::LogSoftmax>("log_softmax", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::log_softmax(x, -1); });
  });
}

}  // namespace trainctl::stages
