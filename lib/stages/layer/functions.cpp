#include "spec/options/layer.hpp"
#include "stage/module.hpp"
#include "stages/builtin.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <array>
#include <memory>
#include <optional>
#include <tuple>
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

std::unique_ptr<stage::Model> make_upsample(const spec::layer::Upsample& options) {
  return make_function_layer([options](const at::Tensor& x_nchw) {
    const std::array<std::int64_t, 2> size{options.size.value_or(0), options.size.value_or(0)};
    const double factor = options.scale_factor.value_or(0);
    const std::array<double, 2> factors{factor, factor};
    at::OptionalIntArrayRef sizes;
    std::optional<at::ArrayRef<double>> scales;
    if (options.size) {
      sizes = at::IntArrayRef(size);
    } else {
      scales = at::ArrayRef<double>(factors);
    }
    if (options.mode == spec::layer::UpsampleMode::nearest)
      return at::upsample_nearest2d(x_nchw, sizes, scales);
    return at::upsample_bilinear2d(x_nchw, sizes, options.align_corners.value_or(false), scales);
  });
}

}  // namespace

void register_layer_functions(stage::Catalog& catalog) {
  auto& layers = catalog.layers;
  layers.add<spec::layer::Relu>("relu", [](const auto&, const auto&) {
    return make_function_layer([](const at::Tensor& x) { return at::relu(x); });
  });
  layers.add<spec::layer::LeakyRelu>("leaky_relu", [](const auto& options, const auto&) {
    return make_function_layer(
        [slope = options.negative_slope](const at::Tensor& x) { return at::leaky_relu(x, slope); });
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
  layers.add<spec::layer::Flatten>("flatten", [](const auto& options, const auto&) {
    return make_function_layer([from = options.start_dim, to = options.end_dim](
                                   const at::Tensor& x) { return x.flatten(from, to); });
  });
  layers.add<spec::layer::Permute>("permute", [](const auto& options, const auto&) {
    return make_function_layer(
        [dims = options.dims](const at::Tensor& x) { return x.permute(dims); });
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
  layers.add<spec::layer::AdaptiveMaxPool2d>(
      "adaptive_max_pool2d", [](const auto& options, const auto&) {
        const std::array<std::int64_t, 2> size{options.output_size, options.output_size};
        return make_function_layer([size](const at::Tensor& x_nchw) {
          return std::get<0>(at::adaptive_max_pool2d(x_nchw, size));
        });
      });
  layers.add<spec::layer::Upsample>(
      "upsample", [](const auto& options, const auto&) { return make_upsample(options); });
}

}  // namespace trainctl::stages
