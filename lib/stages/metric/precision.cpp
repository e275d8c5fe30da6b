#include "spec/metric/precision.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/class_counts.hpp"

namespace trainctl::stages {

void register_metric_precision(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Precision>(
      "precision", [](const auto& options, const auto& context) {
        return make_class_metric("precision", Score::precision, options, context);
      });
}

}  // namespace trainctl::stages
