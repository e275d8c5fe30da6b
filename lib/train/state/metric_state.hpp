#pragma once

#include "stage/growing_metric.hpp"
#include "train/loop/session.hpp"
#include "train/state/saved_state.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace trainctl::train {

/// The name of a metric's sums in a checkpoint; two metrics of one name are allowed.
inline std::string metric_state_name(const Session& session, std::size_t i) {
  return fmt::format("metrics/{}.{}", i, session.metrics[i]->name());
}

/// What a growing metric keeps of an epoch under way has the size that the checkpoint says. Returns
/// the names of these tensors.
inline std::vector<std::string> restore_growing_metrics(const Session& session,
                                                        const SavedState& saved) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < session.metrics.size(); ++i) {
    stage::GrowingMetric* metric = stage::as_growing(*session.metrics[i]);
    if (metric == nullptr) continue;
    names.push_back(metric_state_name(session, i));
    metric->reset();
    for (const stage::NamedTensor& one : saved.tensors(names.back())) metric->merge(one.tensor);
  }
  return names;
}

}  // namespace trainctl::train
