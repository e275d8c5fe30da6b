#include "spec/model/efficientnet_b4.hpp"

#include "stages/builtin.hpp"
#include "stages/model/efficientnet.hpp"

namespace trainctl::stages {

void register_model_efficientnet_b4(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::EfficientnetB4>(
      "efficientnet_b4", [](const auto& options, const auto& context) {
        return make_efficientnet({.name = "efficientnet_b4", .width = 1.4, .depth = 1.8}, options,
                                 context);
      });
}

}  // namespace trainctl::stages
