#include "spec/model/resnet101.hpp"

#include "stages/builtin.hpp"
#include "stages/model/resnet.hpp"

namespace trainctl::stages {

void register_model_resnet101(stage::Catalogue& catalogue) {
  const ResnetPlan plan{
      .name = "resnet101", .kind = ResidualKind::bottleneck, .depths = {3, 4, 23, 3}};
  catalogue.models.add<spec::model::Resnet101>("resnet101",
                                               [plan](const auto& options, const auto& context) {
                                                 return make_resnet(plan, options, context);
                                               });
}

}  // namespace trainctl::stages
