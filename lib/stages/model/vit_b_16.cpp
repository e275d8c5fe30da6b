#include "spec/model/vit_b_16.hpp"

#include "stages/builtin.hpp"
#include "stages/model/vision_transformer.hpp"

namespace trainctl::stages {

void register_model_vit_b_16(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::VitB16>(
      "vit_b_16", [](const auto& options, const auto& context) {
        constexpr TransformerSize kSize{.width = 768, .depth = 12, .heads = 12, .inner = 3072};
        return make_vision_transformer(kSize, options, context);
      });
}

}  // namespace trainctl::stages
