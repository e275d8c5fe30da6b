#include "spec/model/mobilenet_v3_small.hpp"

#include "stages/builtin.hpp"
#include "stages/model/mobilenet_v3.hpp"

namespace trainctl::stages {

// Table 2 of the paper.
void register_model_mobilenet_v3_small(stage::Catalogue& catalogue) {
  const MobilenetV3Plan plan{
      .name = "mobilenet_v3_small",
      .blocks = {{16, 3, 16, 16, Squeeze::with, Nonlinearity::relu, 2},
                 {16, 3, 72, 24, Squeeze::without, Nonlinearity::relu, 2},
                 {24, 3, 88, 24, Squeeze::without, Nonlinearity::relu, 1},
                 {24, 5, 96, 40, Squeeze::with, Nonlinearity::hardswish, 2},
                 {40, 5, 240, 40, Squeeze::with, Nonlinearity::hardswish, 1},
                 {40, 5, 240, 40, Squeeze::with, Nonlinearity::hardswish, 1},
                 {40, 5, 120, 48, Squeeze::with, Nonlinearity::hardswish, 1},
                 {48, 5, 144, 48, Squeeze::with, Nonlinearity::hardswish, 1},
                 {48, 5, 288, 96, Squeeze::with, Nonlinearity::hardswish, 2},
                 {96, 5, 576, 96, Squeeze::with, Nonlinearity::hardswish, 1},
                 {96, 5, 576, 96, Squeeze::with, Nonlinearity::hardswish, 1}},
      .last_channels = 1024};
  catalogue.models.add<spec::model::MobilenetV3Small>(
      "mobilenet_v3_small", [plan](const auto& options, const auto& context) {
        return make_mobilenet_v3(plan, options, context);
      });
}

}  // namespace trainctl::stages
