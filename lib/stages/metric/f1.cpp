#include "spec/metric/f1.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/class_counts.hpp"

namespace trainctl::stages {

void register_metric_f1(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::F1>("f1", [](const auto& options, const auto& context) {
    return make_class_metric("f1", Score::f1, options, context);
  });
}

}  // namespace trainctl::stages
