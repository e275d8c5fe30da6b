#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// Finds the layer that an operator of a training step belongs to. Layers are identified by their
// parameters, so this works for every model, scripted ones too. An operator without parameters
// belongs to the layer before it. In the backward pass each node is traced to the operator that
// created it.

namespace trainctl::train {

enum class LayerPass { none, forward, loss, backward };

/// The position of an operator in the model.
struct LayerPlace {
  std::string layer;  // empty: before the first layer
  std::string op;     // "conv2d"
  bool owns = false;  // a parameter of the layer is an input
  LayerPass pass = LayerPass::none;
};

/// A pass, or a node of the backward pass, which encloses the operators that it recomputes.
struct LayerFrame {
  LayerPlace place;
  std::string node;  // "ConvolutionBackward0"; empty: a pass
  int depth = 0;     // nesting depth of operators
};

struct LayerCall : at::ObserverContext {
  std::vector<at::Tensor> inputs;  // empty for nested calls
  bool outermost = false;          // false: another operator calls it
  bool marked = false;             // set by the derived class
};

/// Follows the operators of a step through the model. Derived classes override the hooks; operators
/// that a hook calls are not reported.
class LayerTrace : public c10::DebugInfoBase {
 public:
  explicit LayerTrace(const stage::Model& model) : parameters_(model.parameters()) {}

  /// Attributes the following operators to `pass`. A forward pass starts a new step.
  virtual void enter(LayerPass pass);

 protected:
  [[nodiscard]] LayerPass pass() const { return pass_; }
  /// Returns the name of the parameter that shares this tensor's memory, or null.
  [[nodiscard]] const std::string* parameter_of(const at::Tensor& tensor) const;

 private:
  friend class LayerScope;

  virtual void node_begins(const LayerFrame& /*frame*/, const at::RecordFunction& /*node*/) {}
  /// Receives the frame that encloses the node.
  virtual void node_ends(const LayerFrame& /*outer*/) {}
  virtual void operator_begins(const LayerFrame& /*frame*/, const at::RecordFunction& /*op*/,
                               LayerCall& /*call*/) {}
  virtual void operator_ends(const LayerFrame& /*frame*/, const at::RecordFunction& /*op*/,
                             const LayerCall& /*call*/) {}
  /// Receives the user scopes of the trainer: "forward", "backward".
  virtual void scope_begins(const std::string& /*name*/) {}
  virtual void scope_ends(const std::string& /*name*/) {}

  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  void end(const at::RecordFunction& function, at::ObserverContext* context);
  std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& op);
  void set_place(LayerFrame& frame, std::string_view op, const std::vector<at::Tensor>& inputs);
  [[nodiscard]] LayerPlace made_by(const at::RecordFunction& node) const;

  std::vector<stage::NamedTensor> parameters_;
  std::unordered_map<const void*, std::string> names_;                     // by memory address
  std::map<std::pair<std::uint64_t, std::uint64_t>, LayerPlace> made_by_;  // [thread, sequence]
  std::vector<LayerFrame> frames_ = std::vector<LayerFrame>(1);
  LayerPlace last_;
  LayerPass pass_ = LayerPass::none;
};

/// Two traces can be active at a time, one for each use.
enum class LayerUse { watch, measurement };

/// Lets a trace observe the operators of this thread, and of the backward passes that this thread
/// starts, while it lives. Destroy it on the thread that created it, and before any observer that
/// was started earlier.
class LayerScope {
 public:
  LayerScope(std::shared_ptr<LayerTrace> trace, LayerUse use);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  template <c10::DebugInfoKind kind>
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function);
  template <c10::DebugInfoKind kind>
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);
  static at::RecordFunctionCallback callback(LayerUse use);

  c10::DebugInfoGuard guard_;  // passes the trace to the threads of the backward pass
  at::CallbackHandle handle_;
};

/// Returns the defined tensors among the inputs or outputs of a call, including those in lists.
std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values);

/// Returns the layer that owns a parameter: "layer3.1.conv2" for "layer3.1.conv2.weight". For a
/// parameter of the model itself it returns the parameter's name.
std::string layer_of(const std::string& parameter);

}  // namespace trainctl::train
