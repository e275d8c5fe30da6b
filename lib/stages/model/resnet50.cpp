#include "spec/model/resnet50.hpp"

#include "stages/builtin.hpp"
#include "stages/model/resnet.hpp"

namespace trainctl::stages {

void register_model_resnet50(stage::Catalogue& catalogue) {
  const ResnetPlan plan{
      .name = "resnet50", .kind = ResidualKind::bottleneck, .depths = {3, 4, 6, 3}};
  catalogue.models.add<spec::model::Resnet50>("resnet50",
                                              [plan](const auto& options, const auto& context) {
                                                return make_resnet(plan, options, context);
                                              });
}

}  // namespace trainctl::stages
