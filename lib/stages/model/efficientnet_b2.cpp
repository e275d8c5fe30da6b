#include "spec/model/efficientnet_b2.hpp"

#include "stages/builtin.hpp"
#include "stages/model/efficientnet.hpp"

namespace trainctl::stages {

void register_model_efficientnet_b2(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::EfficientnetB2>(
      "efficientnet_b2", [](const auto& options, const auto& context) {
        return make_efficientnet({.name = "efficientnet_b2", .width = 1.1, .depth = 1.2}, options,
                                 context);
      });
}

}  // namespace trainctl::stages
