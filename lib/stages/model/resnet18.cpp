#include "spec/model/resnet18.hpp"

#include "stages/builtin.hpp"
#include "stages/model/resnet.hpp"

namespace trainctl::stages {

void register_model_resnet18(stage::Catalogue& catalogue) {
  const ResnetPlan plan{.name = "resnet18", .kind = ResidualKind::basic, .depths = {2, 2, 2, 2}};
  catalogue.models.add<spec::model::Resnet18>("resnet18",
                                              [plan](const auto& options, const auto& context) {
                                                return make_resnet(plan, options, context);
                                              });
}

}  // namespace trainctl::stages
