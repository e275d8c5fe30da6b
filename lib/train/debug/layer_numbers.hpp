#pragma once

#include "events/records.hpp"
#include "train/measure/layer_trace.hpp"

#include <vector>

namespace trainctl::train {

/// Summarises what the operators of a forward pass return, in their order, as layers that a
/// LayerTrace knows. Waits for the device after each.
class LayerNumbers final : public LayerTrace {
 public:
  using LayerTrace::LayerTrace;

  /// At most 200.
  [[nodiscard]] const std::vector<events::TensorSummary>& layers() const { return layers_; }

 private:
  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override;

  std::vector<events::TensorSummary> layers_;
};

}  // namespace trainctl::train
