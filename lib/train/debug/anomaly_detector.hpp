#pragma once

#include "train/measure/layer_trace.hpp"

#include <memory>
#include <string>

namespace trainctl::train {

/// Looks at what every operator of a training step returns and remembers where the first value came
/// up that is not finite, by the layers that a LayerTrace knows. Waits for the device after every
/// operator. Belongs to the thread that made it, and outlives a profiler that is started meanwhile.
class AnomalyDetector {
 public:
  explicit AnomalyDetector(const stage::Model& model);
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;

  using Pass = LayerPass;
  /// What follows belongs to this pass; a forward pass forgets what was found before.
  void enter(Pass pass);
  /// "the forward pass of layer 'layer3.1.conv2' (conv2d)"; empty: all values were finite.
  [[nodiscard]] const std::string& found() const;

 private:
  class State;

  std::shared_ptr<State> state_;
  LayerScope scope_;
};

}  // namespace trainctl::train
