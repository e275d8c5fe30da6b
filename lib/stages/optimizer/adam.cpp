#include "spec/optimizer/adam.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/fused_adam.hpp"

namespace trainctl::stages {

void register_optimizer_adam(stage::Catalogue& catalogue) {
  catalogue.optimizers.add<spec::optimizer::Adam>(
      "adam", [](const auto& options, const auto& context) {
        return make_fused_adam(options, context, Decay::l2);
      });
}

}  // namespace trainctl::stages
