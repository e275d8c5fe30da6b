#include "spec/optimizer/adamw.hpp"

#include "stages/builtin.hpp"
#include "stages/optimizer/fused_adam.hpp"

namespace trainctl::stages {

void register_optimizer_adamw(stage::Catalogue& catalogue) {
  catalogue.optimizers.add<spec::optimizer::Adamw>(
      "adamw", [](const auto& options, const auto& context) {
        return make_fused_adam(options, context, Decay::decoupled);
      });
}

}  // namespace trainctl::stages
