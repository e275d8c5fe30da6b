#include "spec/model/efficientnet_b3.hpp"

#include "stages/builtin.hpp"
#include "stages/model/efficientnet.hpp"

namespace trainctl::stages {

void register_model_efficientnet_b3(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::EfficientnetB3>(
      "efficientnet_b3", [](const auto& options, const auto& context) {
        return make_efficientnet({.name = "efficientnet_b3", .width = 1.2, .depth = 1.4}, options,
                                 context);
      });
}

}  // namespace trainctl::stages
