#include "spec/model/vit_tiny.hpp"

#include "stages/builtin.hpp"
#include "stages/model/vision_transformer.hpp"

namespace trainctl::stages {

void register_model_vit_tiny(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::VitTiny>(
      "vit_tiny", [](const auto& options, const auto& context) {
        constexpr TransformerSize kSize{.width = 192, .depth = 12, .heads = 3, .inner = 768};
        return make_vision_transformer(kSize, options, context);
      });
}

}  // namespace trainctl::stages
