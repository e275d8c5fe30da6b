#include "spec/model/efficientnet_b0.hpp"

#include "stages/builtin.hpp"
#include "stages/model/efficientnet.hpp"

namespace trainctl::stages {

void register_model_efficientnet_b0(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::EfficientnetB0>("efficientnet_b0", [](const auto& options,
                                                                          const auto& context) {
    return make_efficientnet({.name = "efficientnet_b0", .width = 1, .depth = 1}, options, context);
  });
}

}  // namespace trainctl::stages
