#include "spec/layer/activation.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/gelu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

namespace trainctl::stages {

void register_layer_relu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Relu>("relu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::relu(x); });
  });
}

void register_layer_gelu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Gelu>("gelu", [](const auto& options, const auto&) {
    const char* formula = options.approximate == spec::layer::Approximate::tanh ? "tanh" : "none";
    return make_function_layer([formula](const at::Tensor& x) { return at::gelu(x, formula); });
  });
}

void register_layer_silu(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Silu>("silu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::silu(x); });
  });
}

void register_layer_tanh(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Tanh>("tanh", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::tanh(x); });
  });
}

void register_layer_sigmoid(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::Sigmoid>("sigmoid", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::sigmoid(x); });
  });
}

void register_layer_log_softmax(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::LogSoftmax>("log_softmax", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::log_softmax(x, -1); });
  });
}

}  // namespace trainctl::stages
