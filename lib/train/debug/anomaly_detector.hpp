#pragma once

#include "train/measure/layer_trace.hpp"

#include <memory>
#include <string>

namespace trainctl::train {

/// Checks the outputs of every operator of a training step and records which layer returned the
/// first non-finite value. Synchronizes with the device after each operator. Must be used on the
/// thread that created it, and must outlive a profiler that is started later.
class AnomalyDetector {
 public:
  explicit AnomalyDetector(const stage::Model& model);
  AnomalyDetector(const AnomalyDetector&) = delete;
  AnomalyDetector& operator=(const AnomalyDetector&) = delete;

  using Pass = LayerPass;
  /// Attributes the following operators to `pass`. A forward pass discards earlier findings.
  void enter(Pass pass);
  /// Returns the operator with the first non-finite value, "the forward pass of layer
  /// 'layer3.1.conv2' (conv2d)"; empty if all values were finite.
  [[nodiscard]] const std::string& found() const;

 private:
  class State;

  std::shared_ptr<State> state_;
  LayerScope scope_;
};

}  // namespace trainctl::train
