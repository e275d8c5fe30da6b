#include "spec/model/resnet152.hpp"

#include "stages/builtin.hpp"
#include "stages/model/resnet.hpp"

namespace trainctl::stages {

void register_model_resnet152(stage::Catalogue& catalogue) {
  const ResnetPlan plan{
      .name = "resnet152", .kind = ResidualKind::bottleneck, .depths = {3, 8, 36, 3}};
  catalogue.models.add<spec::model::Resnet152>("resnet152",
                                               [plan](const auto& options, const auto& context) {
                                                 return make_resnet(plan, options, context);
                                               });
}

}  // namespace trainctl::stages
