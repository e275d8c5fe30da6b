#include "train/debug/anomaly_detector.hpp"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace trainctl::train {
namespace {

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  const at::Tensor values = tensor.is_sparse() ? tensor._values() : tensor.detach();
  return at::isfinite(values).all().item<bool>();
}

/// What is not finite in their results was asked for, or never written.
bool may_be_infinite(std::string_view op) {
  constexpr std::array kParts{"empty", "fill", "full", "resize"};
  return std::ranges::any_of(
      kParts, [&](const char* part) { return op.find(part) != std::string_view::npos; });
}

std::string where(const LayerPlace& place) {
  if (place.pass == LayerPass::loss) return "the loss";
  if (place.layer.empty()) return "what comes before the first layer";
  return fmt::format("{} '{}'", place.owns ? "layer" : "what follows layer", place.layer);
}

std::string pass_of(const LayerPlace& place) {
  return place.pass == LayerPass::loss ? "the loss" : "the forward pass of " + where(place);
}

}  // namespace

class LayerWatch::State final : public LayerTrace {
 public:
  using LayerTrace::LayerTrace;

  void enter(LayerPass pass) override {
    if (pass == LayerPass::forward) found_.clear();
    LayerTrace::enter(pass);
  }

  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  void node_begins(const LayerFrame& frame, const at::RecordFunction& node) override {
    const std::vector<at::Tensor> gradients = tensors_in(node.inputs());
    if (found_.empty() && !std::ranges::all_of(gradients, is_finite))
      found_ = fmt::format("the gradient that reaches {} ({})", where(frame.place), frame.node);
  }

  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    const bool between_nodes = pass() == LayerPass::backward && frame.node.empty();
    if (!call.outermost || between_nodes || !found_.empty() || call.inputs.empty()) return;
    if (may_be_infinite(op.name())) return;
    if (std::ranges::all_of(tensors_in(op.outputs()), is_finite)) return;
    found_ = pass() == LayerPass::backward
                 ? fmt::format("the backward pass of {} ({})", where(frame.place), frame.node)
                 : fmt::format("{} ({}){}", pass_of(frame.place), frame.place.op, cause(call));
  }

  /// Why no layer is to blame, where that is so.
  [[nodiscard]] std::string cause(const LayerCall& call) const {
    for (const at::Tensor& input : call.inputs) {
      if (is_finite(input)) continue;
      const std::string* name = parameter_of(input);
      return name == nullptr ? ", whose input was not finite"
                             : fmt::format(", whose '{}' was not finite", *name);
    }
    return {};
  }

  std::string found_;
};

LayerWatch::LayerWatch(const stage::Model& model)
    : state_(std::make_shared<State>(model)), scope_(state_, LayerUse::watch) {}

void LayerWatch::enter(Pass pass) { state_->enter(pass); }
const std::string& LayerWatch::found() const { return state_->found(); }

}  // namespace trainctl::train
