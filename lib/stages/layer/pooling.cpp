#include "spec/layer/pooling.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include <array>

namespace trainctl::stages {

void register_layer_max_pool2d(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::MaxPool2d>("max_pool2d", [](const auto& options, const auto&) {
    const std::array<std::int64_t, 2> window{options.kernel_size, options.kernel_size};
    const std::array<std::int64_t, 2> stride{options.step(), options.step()};
    const std::array<std::int64_t, 2> padding{options.padding, options.padding};
    return make_function_layer([window, stride, padding](const at::Tensor& x_nchw) {
      return at::max_pool2d(x_nchw, window, stride, padding);
    });
  });
}

void register_layer_avg_pool2d(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::AvgPool2d>("avg_pool2d", [](const auto& options, const auto&) {
    const std::array<std::int64_t, 2> window{options.kernel_size, options.kernel_size};
    const std::array<std::int64_t, 2> stride{options.step(), options.step()};
    const std::array<std::int64_t, 2> padding{options.padding, options.padding};
    return make_function_layer([window, stride, padding](const at::Tensor& x_nchw) {
      return at::avg_pool2d(x_nchw, window, stride, padding);
    });
  });
}

void register_layer_adaptive_avg_pool2d(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::AdaptiveAvgPool2d>(
      "adaptive_avg_pool2d", [](const auto& options, const auto&) {
        const std::array<std::int64_t, 2> size{options.output_size, options.output_size};
        return make_function_layer(
            [size](const at::Tensor& x_nchw) { return at::adaptive_avg_pool2d(x_nchw, size); });
      });
}

}  // namespace trainctl::stages
