#include "train/layer_watch.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainctl::train {
namespace {

constexpr auto kKind = c10::DebugInfoKind::PRODUCER_INFO;

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

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  return at::isfinite(tensor.detach()).all().item<bool>();
}

/// What is not finite in their results was asked for, or never written.
bool may_be_infinite(std::string_view op) {
  constexpr std::array kParts{"empty", "fill", "full", "resize"};
  return std::ranges::any_of(
      kParts, [&](const char* part) { return op.find(part) != std::string_view::npos; });
}

std::string_view short_name(std::string_view op) {
  return op.starts_with("aten::") ? op.substr(6) : op;
}

/// Marks the calls whose end belongs to a start that was seen.
struct Seen : at::ObserverContext {
  std::vector<at::Tensor> inputs;  // of an operator whose result is looked at
  bool outermost = false;
};

}  // namespace

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

class LayerWatch::State final : public c10::DebugInfoBase {
 public:
  explicit State(const stage::Model& model) : parameters_(model.parameters()) {}

  void enter(Pass pass) {
    pass_ = pass;
    frames_.assign(1, {});
    if (pass == Pass::loss) frames_.back().place = last_;
    if (pass != Pass::forward) return;
    found_.clear();
    made_by_.clear();
    last_ = {};
    names_.clear();  // a parameter may have got other memory since
    for (const auto& [name, tensor] : parameters_) names_[memory_of(tensor)] = name;
  }

  [[nodiscard]] const std::string& found() const { return found_; }

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
    State* state = current();
    if (state == nullptr || state->pass_ == Pass::none) return nullptr;
    const at::DisableRecordFunctionGuard unseen;
    return call.scope() == at::RecordScope::BACKWARD_FUNCTION ? state->begin_node(call)
                                                              : state->begin_operator(call);
  }

  static void on_end(const at::RecordFunction& call, at::ObserverContext* context) {
    auto* seen = static_cast<Seen*>(context);
    State* state = current();
    if (seen == nullptr || state == nullptr) return;
    const at::DisableRecordFunctionGuard unseen;
    if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      state->frames_.pop_back();
    } else {
      state->end_operator(call, *seen);
    }
  }

 private:
  /// Where an operator stands in the model.
  struct Place {
    std::string layer;  // empty: before the first one
    std::string op;
    bool owns = false;  // the layer's own parameter goes into it
    Pass pass = Pass::none;
  };

  /// A pass, or a node of the backward pass; what a node computes again is below it.
  struct Frame {
    Place place;
    std::string node;  // empty: a pass
    int depth = 0;     // of operators within operators
  };

  static State* current() { return static_cast<State*>(c10::ThreadLocalDebugInfo::get(kKind)); }

  static const void* memory_of(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }

  std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction& call) {
    const Frame frame{made_by(call), call.name(), 0};
    const std::vector<at::Tensor> gradients = tensors_in(call.inputs());
    if (found_.empty() && !std::ranges::all_of(gradients, is_finite))
      found_ = fmt::format("the gradient that reaches {} ({})", where(frame.place), frame.node);
    frames_.push_back(frame);
    return std::make_unique<Seen>();
  }

  std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& call) {
    auto seen = std::make_unique<Seen>();
    Frame& frame = frames_.back();
    seen->outermost = frame.depth++ == 0;
    if (!seen->outermost) return seen;
    seen->inputs = tensors_in(call.inputs());
    const bool recomputes = !frame.node.empty() && at::GradMode::is_enabled();
    if (frame.node.empty() || recomputes) stand_at(frame, call.name(), seen->inputs);
    if (at::GradMode::is_enabled())
      made_by_[{at::RecordFunction::currentThreadId(), at::sequence_number::peek()}] = frame.place;
    return seen;
  }

  void stand_at(Frame& frame, std::string_view op, const std::vector<at::Tensor>& inputs) {
    frame.place.op = short_name(op);
    frame.place.owns = false;
    frame.place.pass = pass_ == Pass::loss ? Pass::loss : Pass::forward;
    for (const at::Tensor& input : inputs) {
      const auto name = names_.find(memory_of(input));
      if (name == names_.end()) continue;
      frame.place.layer = layer_of(name->second);
      frame.place.owns = true;
    }
    last_ = frame.place;
  }

  void end_operator(const at::RecordFunction& call, const Seen& seen) {
    Frame& frame = frames_.back();
    --frame.depth;
    const bool between_nodes = pass_ == Pass::backward && frame.node.empty();
    if (!seen.outermost || between_nodes || !found_.empty() || seen.inputs.empty()) return;
    if (may_be_infinite(call.name())) return;
    if (std::ranges::all_of(tensors_in(call.outputs()), is_finite)) return;
    found_ = pass_ == Pass::backward
                 ? fmt::format("the backward pass of {} ({})", where(frame.place), frame.node)
                 : fmt::format("{} ({}){}", pass_of(frame.place), frame.place.op, cause(seen));
  }

  static std::string where(const Place& place) {
    if (place.pass == Pass::loss) return "the loss";
    if (place.layer.empty()) return "what comes before the first layer";
    return fmt::format("{} '{}'", place.owns ? "layer" : "what follows layer", place.layer);
  }

  static std::string pass_of(const Place& place) {
    return place.pass == Pass::loss ? "the loss" : "the forward pass of " + where(place);
  }

  /// Why no layer is to blame, where that is so.
  [[nodiscard]] std::string cause(const Seen& seen) const {
    for (const at::Tensor& input : seen.inputs) {
      if (is_finite(input)) continue;
      const auto name = names_.find(memory_of(input));
      return name == names_.end() ? ", whose input was not finite"
                                  : fmt::format(", whose '{}' was not finite", name->second);
    }
    return {};
  }

  /// Nodes are numbered in the order in which the operators of a thread made them.
  [[nodiscard]] Place made_by(const at::RecordFunction& call) const {
    if (call.seqNr() < 0) return last_;  // a parameter's own node
    const std::pair key(call.forwardThreadId(), static_cast<std::uint64_t>(call.seqNr()));
    const auto after = made_by_.upper_bound(key);
    if (after == made_by_.begin() || std::prev(after)->first.first != key.first) return {};
    return std::prev(after)->second;
  }

  std::vector<stage::NamedTensor> parameters_;
  std::unordered_map<const void*, std::string> names_;                // by memory
  std::map<std::pair<std::uint64_t, std::uint64_t>, Place> made_by_;  // [thread, number]
  std::vector<Frame> frames_ = std::vector<Frame>(1);
  Place last_;
  Pass pass_ = Pass::none;
  std::string found_;
};

LayerWatch::LayerWatch(const stage::Model& model)
    : state_(std::make_shared<State>(model)),
      scope_(kKind, state_),
      handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&State::on_start, &State::on_end)
              .needsInputs(true)
              .needsOutputs(true)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}

LayerWatch::~LayerWatch() { at::removeCallback(handle_); }

void LayerWatch::enter(Pass pass) { state_->enter(pass); }
const std::string& LayerWatch::found() const { return state_->found(); }

}  // namespace trainctl::train
