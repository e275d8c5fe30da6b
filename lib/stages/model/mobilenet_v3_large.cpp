#include "spec/model/mobilenet_v3_large.hpp"

#include "stages/builtin.hpp"
#include "stages/model/mobilenet_v3.hpp"

namespace trainctl::stages {

// Table 1 of the paper.
void register_model_mobilenet_v3_large(stage::Catalogue& catalogue) {
  const MobilenetV3Plan plan{
      .name = "mobilenet_v3_large",
      .blocks = {{16, 3, 16, 16, Squeeze::without, Nonlinearity::relu, 1},
                 {16, 3, 64, 24, Squeeze::without, Nonlinearity::relu, 2},
                 {24, 3, 72, 24, Squeeze::without, Nonlinearity::relu, 1},
                 {24, 5, 72, 40, Squeeze::with, Nonlinearity::relu, 2},
                 {40, 5, 120, 40, Squeeze::with, Nonlinearity::relu, 1},
                 {40, 5, 120, 40, Squeeze::with, Nonlinearity::relu, 1},
                 {40, 3, 240, 80, Squeeze::without, Nonlinearity::hardswish, 2},
                 {80, 3, 200, 80, Squeeze::without, Nonlinearity::hardswish, 1},
                 {80, 3, 184, 80, Squeeze::without, Nonlinearity::hardswish, 1},
                 {80, 3, 184, 80, Squeeze::without, Nonlinearity::hardswish, 1},
                 {80, 3, 480, 112, Squeeze::with, Nonlinearity::hardswish, 1},
                 {112, 3, 672, 112, Squeeze::with, Nonlinearity::hardswish, 1},
                 {112, 5, 672, 160, Squeeze::with, Nonlinearity::hardswish, 2},
                 {160, 5, 960, 160, Squeeze::with, Nonlinearity::hardswish, 1},
                 {160, 5, 960, 160, Squeeze::with, Nonlinearity::hardswish, 1}},
      .last_channels = 1280};
  catalogue.models.add<spec::model::MobilenetV3Large>(
      "mobilenet_v3_large", [plan](const auto& options, const auto& context) {
        return make_mobilenet_v3(plan, options, context);
      });
}

}  // namespace trainctl::stages
