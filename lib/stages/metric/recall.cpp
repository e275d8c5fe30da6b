#include "spec/metric/recall.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/class_counts.hpp"

namespace trainctl::stages {

void register_metric_recall(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Recall>(
      "recall", [](const auto& options, const auto& context) {
        return make_class_metric("recall", Score::recall, options, context);
      });
}

}  // namespace trainctl::stages
