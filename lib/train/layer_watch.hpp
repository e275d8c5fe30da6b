#pragma once

#include "stage/stages.hpp"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <string>

namespace trainctl::train {

/// Looks at what every operator of a training step returns and remembers where the first value came
/// up that is not finite. A layer is known by its parameters, so every model has them, scripted
/// ones too; an operator without parameters stands after the layer before it. In the backward pass
/// each node is traced to the operator that made it. Waits for the device after every operator.
/// Belongs to the thread that made it, and outlives a profiler that is started meanwhile.
class LayerWatch {
 public:
  explicit LayerWatch(const stage::Model& model);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  enum class Pass { none, forward, loss, backward };
  /// What follows belongs to this pass; a forward pass forgets what was found before.
  void enter(Pass pass);
  /// "the forward pass of layer 'layer3.1.conv2' (conv2d)"; empty: all values were finite.
  [[nodiscard]] const std::string& found() const;

 private:
  class State;

  std::shared_ptr<State> state_;
  c10::DebugInfoGuard scope_;  // hands the state to the threads of the backward pass
  at::CallbackHandle handle_;
};

/// The layer that owns a parameter: "layer3.1.conv2" of "layer3.1.conv2.weight"; a parameter of the
/// model itself is its own.
std::string layer_of(const std::string& parameter);

}  // namespace trainctl::train
