#include "train/step/measure.hpp"

namespace trainctl::train {

void measure(const std::vector<std::unique_ptr<stage::Metric>>& metrics, const stage::Loss& loss,
             const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor rows = logits.detach();
  at::Tensor labels = targets;
  if (const auto ignored = loss.ignored_label(); ignored && !metrics.empty()) {
    if (rows.dim() == 3) rows = rows.flatten(0, 1);  // a row for each token
    labels = labels.flatten();
    const at::Tensor counted = labels.ne(*ignored).nonzero().squeeze(1);
    rows = rows.index_select(0, counted);
    labels = labels.index_select(0, counted);
  }
  for (const auto& metric : metrics) metric->update(rows, labels);
}

}  // namespace trainctl::train
