#pragma once

#include "stage/stages.hpp"

namespace trainctl::stage {

/// A metric that keeps what grows with the rows, such as the score of each: `sums()` may have any
/// size, and those of batches and ranks are merged instead of added. After `reset` and `merge` of
/// the `sums()` of another metric it continues like that one.
class GrowingMetric : public Metric {
 public:
  /// Adds other rows: `sums()` of a metric of the same options.
  virtual void merge(const at::Tensor& sums) = 0;
  /// The rows of the last update count only if the bool `condition` on the device holds.
  virtual void keep_last_update_if(const at::Tensor& condition) = 0;
};

/// The metric as one that grows; null: its sums keep their size and are added.
inline GrowingMetric* as_growing(Metric& metric) { return dynamic_cast<GrowingMetric*>(&metric); }

/// Adds the rows that `sums` stands for.
inline void merge(Metric& metric, const at::Tensor& sums) {
  if (GrowingMetric* growing = as_growing(metric)) {
    growing->merge(sums);
  } else {
    metric.sums().add_(sums.to(metric.sums().device()));
  }
}

}  // namespace trainctl::stage
