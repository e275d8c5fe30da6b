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

// Which layer an operator of a training step belongs to. A layer is known by its parameters, so
// every model has them, scripted ones too; an operator without parameters stands after the layer
// before it. In the backward pass each node is traced to the operator that made it.

namespace trainctl::train {

enum class LayerPass { none, forward, loss, backward };

/// Where an operator stands in the model.
struct LayerPlace {
  std::string layer;  // empty: before the first one
  std::string op;     // "conv2d"
  bool owns = false;  // the layer's own parameter goes into it
  LayerPass pass = LayerPass::none;
};

/// A pass, or a node of the backward pass; what a node computes again is below it.
struct LayerFrame {
  LayerPlace place;
  std::string node;  // "ConvolutionBackward0"; empty: a pass
  int depth = 0;     // of operators within operators
};

struct LayerCall : at::ObserverContext {
  std::vector<at::Tensor> inputs;  // of an outermost one
  bool outermost = false;          // else another one calls it
  bool marked = false;             // by whoever listens
};

/// Follows the operators of a step through the model; whoever listens derives from it. Operators
/// that a listener calls are not seen.
class LayerTrace : public c10::DebugInfoBase {
 public:
  explicit LayerTrace(const stage::Model& model) : parameters_(model.parameters()) {}

  /// What follows belongs to this pass; a forward pass begins a step anew.
  virtual void enter(LayerPass pass);

 protected:
  [[nodiscard]] LayerPass pass() const { return pass_; }
  /// The name of a parameter whose memory this is; null: of none.
  [[nodiscard]] const std::string* parameter_of(const at::Tensor& tensor) const;

 private:
  friend class LayerScope;

  virtual void node_begins(const LayerFrame& /*frame*/, const at::RecordFunction& /*node*/) {}
  /// The frame is that of what encloses the node.
  virtual void node_ends(const LayerFrame& /*outer*/) {}
  virtual void operator_begins(const LayerFrame& /*frame*/, const at::RecordFunction& /*op*/,
                               LayerCall& /*call*/) {}
  virtual void operator_ends(const LayerFrame& /*frame*/, const at::RecordFunction& /*op*/,
                             const LayerCall& /*call*/) {}
  /// A part of the step that the trainer names: "forward", "backward".
  virtual void scope_begins(const std::string& /*name*/) {}
  virtual void scope_ends(const std::string& /*name*/) {}

  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  void end(const at::RecordFunction& function, at::ObserverContext* context);
  std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& op);
  void stand_at(LayerFrame& frame, std::string_view op, const std::vector<at::Tensor>& inputs);
  [[nodiscard]] LayerPlace made_by(const at::RecordFunction& node) const;

  std::vector<stage::NamedTensor> parameters_;
  std::unordered_map<const void*, std::string> names_;                     // by memory
  std::map<std::pair<std::uint64_t, std::uint64_t>, LayerPlace> made_by_;  // [thread, number]
  std::vector<LayerFrame> frames_ = std::vector<LayerFrame>(1);
  LayerPlace last_;
  LayerPass pass_ = LayerPass::none;
};

/// Two listeners at a time, one of each use.
enum class LayerUse { watch, measurement };

/// Lets a trace see the operators of this thread, and of the backward passes that it starts, while
/// it lives. Ends on the thread that made it, before whatever observes that was begun earlier.
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

  c10::DebugInfoGuard guard_;  // hands the trace to the threads of the backward pass
  at::CallbackHandle handle_;
};

/// The defined tensors among the inputs or outputs of a call, those of lists too.
std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values);

/// The layer that owns a parameter: "layer3.1.conv2" of "layer3.1.conv2.weight"; a parameter of the
/// model itself is its own.
std::string layer_of(const std::string& parameter);

}  // namespace trainctl::train
