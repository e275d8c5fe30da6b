#include "spec/model/resnet34.hpp"

#include "stages/builtin.hpp"
#include "stages/model/resnet.hpp"

namespace trainctl::stages {

void register_model_resnet34(stage::Catalogue& catalogue) {
  const ResnetPlan plan{.name = "resnet34", .kind = ResidualKind::basic, .depths = {3, 4, 6, 3}};
  catalogue.models.add<spec::model::Resnet34>("resnet34",
                                              [plan](const auto& options, const auto& context) {
                                                return make_resnet(plan, options, context);
                                              });
}

}  // namespace trainctl::stages
