#include "train/measure/layer_trace.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>

#include <iterator>
#include <unordered_set>

namespace trainctl::train {
namespace {

const void* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// The slot of the thread-local debug info for a trace. libtorch's own tools use other kinds.
constexpr c10::DebugInfoKind kind_of(LayerUse use) {
  return use == LayerUse::watch ? c10::DebugInfoKind::PRODUCER_INFO
                                : c10::DebugInfoKind::MOBILE_RUNTIME_INFO;
}

bool is_scope(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::USER_SCOPE;
}

bool is_node(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION;
}

}  // namespace

std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

void LayerTrace::enter(LayerPass pass) {
  pass_ = pass;
  frames_.assign(1, {});
  if (pass == LayerPass::loss) frames_.back().place = last_;
  if (pass != LayerPass::forward) return;
  made_by_.clear();
  last_ = {};
  names_.clear();  // parameters may have been reallocated
  for (const auto& [name, tensor] : parameters_) names_[memory_of(tensor)] = name;
}

const std::string* LayerTrace::parameter_of(const at::Tensor& tensor) const {
  const auto name = names_.find(memory_of(tensor));
  return name == names_.end() ? nullptr : &name->second;
}

std::unique_ptr<at::ObserverContext> LayerTrace::begin(const at::RecordFunction& function) {
  const at::DisableRecordFunctionGuard unseen;
  if (is_scope(function)) {
    scope_begins(function.name());
    return nullptr;
  }
  if (pass_ == LayerPass::none) return nullptr;
  if (!is_node(function)) return begin_operator(function);
  frames_.push_back({made_by(function), function.name(), 0});
  node_begins(frames_.back(), function);
  return std::make_unique<LayerCall>();
}

void LayerTrace::end(const at::RecordFunction& function, at::ObserverContext* context) {
  const at::DisableRecordFunctionGuard unseen;
  if (is_scope(function)) return scope_ends(function.name());
  const auto* call = static_cast<LayerCall*>(context);
  if (call == nullptr) return;
  if (is_node(function)) {
    frames_.pop_back();
    return node_ends(frames_.back());
  }
  --frames_.back().depth;
  operator_ends(frames_.back(), function, *call);
}

std::unique_ptr<at::ObserverContext> LayerTrace::begin_operator(const at::RecordFunction& op) {
  auto call = std::make_unique<LayerCall>();
  LayerFrame& frame = frames_.back();
  call->outermost = frame.depth++ == 0;
  if (call->outermost) {
    call->inputs = tensors_in(op.inputs());
    const bool recomputes = !frame.node.empty() && at::GradMode::is_enabled();
    if (frame.node.empty() || recomputes) set_place(frame, op.name(), call->inputs);
    if (at::GradMode::is_enabled())
      made_by_[{at::RecordFunction::currentThreadId(), at::sequence_number::peek()}] = frame.place;
  }
  operator_begins(frame, op, *call);
  return call;
}

void LayerTrace::set_place(LayerFrame& frame, std::string_view op,
                           const std::vector<at::Tensor>& inputs) {
  frame.place.op = op.starts_with("aten::") ? op.substr(6) : op;
  frame.place.owns = false;
  frame.place.pass = pass_ == LayerPass::loss ? LayerPass::loss : LayerPass::forward;
  for (const at::Tensor& input : inputs) {
    const std::string* name = parameter_of(input);
    if (name == nullptr) continue;
    frame.place.layer = layer_of(*name);
    frame.place.owns = true;
  }
  last_ = frame.place;
}

/// Sequence numbers of nodes increase in the order in which a thread's operators created them.
LayerPlace LayerTrace::made_by(const at::RecordFunction& node) const {
  if (node.seqNr() < 0) return last_;  // the AccumulateGrad node of a parameter
  const std::pair key(node.forwardThreadId(), static_cast<std::uint64_t>(node.seqNr()));
  const auto after = made_by_.upper_bound(key);
  if (after == made_by_.begin() || std::prev(after)->first.first != key.first) return {};
  return std::prev(after)->second;
}

template <c10::DebugInfoKind kind>
std::unique_ptr<at::ObserverContext> LayerScope::on_start(const at::RecordFunction& function) {
  auto* trace = static_cast<LayerTrace*>(c10::ThreadLocalDebugInfo::get(kind));
  return trace == nullptr ? nullptr : trace->begin(function);
}

template <c10::DebugInfoKind kind>
void LayerScope::on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* trace = static_cast<LayerTrace*>(c10::ThreadLocalDebugInfo::get(kind));
  if (trace != nullptr) trace->end(function, context);
}

/// Callbacks are plain functions and find their trace by the kind of debug info.
at::RecordFunctionCallback LayerScope::callback(LayerUse use) {
  using Scope = at::RecordScope;
  constexpr auto kWatch = kind_of(LayerUse::watch);
  constexpr auto kMeasurement = kind_of(LayerUse::measurement);
  std::unordered_set<Scope, std::hash<Scope>> scopes{Scope::FUNCTION, Scope::BACKWARD_FUNCTION};
  at::RecordFunctionCallback callback(&on_start<kWatch>, &on_end<kWatch>);
  if (use == LayerUse::measurement) {
    callback = at::RecordFunctionCallback(&on_start<kMeasurement>, &on_end<kMeasurement>);
    scopes.insert(Scope::USER_SCOPE);
  }
  return callback.needsInputs(true).needsOutputs(true).scopes(scopes);
}

LayerScope::LayerScope(std::shared_ptr<LayerTrace> trace, LayerUse use)
    : guard_(kind_of(use), std::move(trace)), handle_(at::addThreadLocalCallback(callback(use))) {}

LayerScope::~LayerScope() { at::removeCallback(handle_); }

}  // namespace trainctl::train
