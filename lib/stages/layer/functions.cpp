#include "spec/options/layer.hpp"
#include "stage/module.hpp"
#include "stages/builtin.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <array>
#include <memory>
#include <utility>

namespace trainctl::stages {
namespace {

/// A layer without parameters: a function of the input, and optionally of the mode.
template <class Function>
class FunctionLayer final : public stage::Module {
 public:
  explicit FunctionLayer(Function function) : function_(std::move(function)) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    if constexpr (requires { function_(inputs, stage::RunMode::train); })
      return function_(inputs, mode());
    else
      return function_(inputs);
  }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<stage::Model> make_function_layer(Function function) {
  return std::make_unique<FunctionLayer<Function>>(std::move(function));
}

}  // namespace

void register_layer_functions(stage::Catalog& catalog) {
  auto& layers = catalog.layers;
  layers.add<spec::layer::Relu>("relu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::relu(x); });
  });
  layers.add<spec::layer::Gelu>("gelu", [](const auto& options, const auto&) {
    const char* formula = options.approximate == spec::layer::Approximate::tanh ? "tanh" : "none";
    return make_function_layer([formula](const at::Tensor& x) { return at::gelu(x, formula); });
  });
  layers.add<spec::layer::Silu>("silu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::silu(x); });
  });
  layers.add<spec::layer::Tanh>("tanh", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::tanh(x); });
  });
  layers.add<spec::layer::Sigmoid>("sigmoid", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::sigmoid(x); });
  });
  layers.add<spec::layer::LogSoftmax>("log_softmax", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::log_softmax(x, -1); });
  });
  layers.add<spec::layer::Dropout>("dropout", [](const auto& options, const auto&) {
    return make_function_layer([p = options.p](const at::Tensor& x, stage::RunMode mode) {
      return at::dropout(x, p, mode == stage::RunMode::train);
    });
  });
  layers.add<spec::layer::Flatten>("flatten", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return x.flatten(1); });
  });
  layers.add<spec::layer::MaxPool2d>("max_pool2d", [](const auto& options, const auto&) {
    const std::array<std::int64_t, 2> window{options.kernel_size, options.kernel_size};
    const std::array<std::int64_t, 2> stride{options.step(), options.step()};
    const std::array<std::int64_t, 2> padding{options.padding, options.padding};
    return make_function_layer([window, stride, padding](const at::Tensor& x_nchw) {
      return at::max_pool2d(x_nchw, window, stride, padding);
    });
  });
  layers.add<spec::layer::AvgPool2d>("avg_pool2d", [](const auto& options, const auto&) {
    const std::array<std::int64_t, 2> window{options.kernel_size, options.kernel_size};
    const std::array<std::int64_t, 2> stride{options.step(), options.step()};
    const std::array<std::int64_t, 2> padding{options.padding, options.padding};
    return make_function_layer([window, stride, padding](const at::Tensor& x_nchw) {
      return at::avg_pool2d(x_nchw, window, stride, padding);
    });
  });
  layers.add<spec::layer::AdaptiveAvgPool2d>(
      "adaptive_avg_pool2d", [](const auto& options, const auto&) {
        const std::array<std::int64_t, 2> size{options.output_size, options.output_size};
        return make_function_layer(
            [size](const at::Tensor& x_nchw) { return at::adaptive_avg_pool2d(x_nchw, size); });
      });
}

}  // namespace trainctl::stages
