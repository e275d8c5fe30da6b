#include "spec/layer/adaptive_avg_pool2d.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/function_layer.hpp"

#include <ATen/ops/adaptive_avg_pool2d.h>

#include <array>

namespace trainctl::stages {

void register_layer_adaptive_avg_pool2d(stage::Catalogue& catalogue) {
  catalogue.layers.add<spec::layer::AdaptiveAvgPool2d>(
      "adaptive_avg_pool2d", [](const auto& options, const auto&) {
        const std::array<std::int64_t, 2> size{options.output_size, options.output_size};
        return make_function_layer(
            [size](const at::Tensor& x_nchw) { return at::adaptive_avg_pool2d(x_nchw, size); });
      });
}

}  // namespace trainctl::stages
