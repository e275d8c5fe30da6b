#include "spec/model/efficientnet_b1.hpp"

#include "stages/builtin.hpp"
#include "stages/model/efficientnet.hpp"

namespace trainctl::stages {

void register_model_efficientnet_b1(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::EfficientnetB1>(
      "efficientnet_b1", [](const auto& options, const auto& context) {
        return make_efficientnet({.name = "efficientnet_b1", .width = 1, .depth = 1.1}, options,
                                 context);
      });
}

}  // namespace trainctl::stages
