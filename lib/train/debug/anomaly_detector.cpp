#include "train/debug/anomaly_detector.hpp"

#include "device/host_read.hpp"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainctl::train {
namespace {

bool has_only_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return true;
  const at::Tensor values = tensor.is_sparse() ? tensor._values() : tensor.detach();
  return device::value_of<bool>(at::isfinite(values).all(), "trainer.detect_anomaly");
}

/// Returns whether the results of `op` may be non-finite without an error: the values are
/// uninitialized or were requested.
bool may_be_infinite(std::string_view op) {
  constexpr std::array kParts{"empty", "fill", "full", "resize"};
  return std::ranges::any_of(
      kParts, [&](const char* part) { return op.find(part) != std::string_view::npos; });
}

std::string layer_text(const LayerPlace& place) {
  if (place.pass == LayerPass::loss) return "the loss";
  if (place.layer.empty()) return "the operations before the first layer";
  return fmt::format("{} '{}'", place.owns ? "layer" : "the operations after layer", place.layer);
}

}  // namespace

class AnomalyDetector::State final : public LayerTrace {
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
    if (found_.empty() && !std::ranges::all_of(gradients, has_only_finite))
      found_ =
          fmt::format("the gradient that reaches {} ({})", layer_text(frame.place), frame.node);
  }

  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    const bool between_nodes = pass() == LayerPass::backward && frame.node.empty();
    if (!call.outermost || between_nodes || !found_.empty() || call.inputs.empty()) return;
    if (may_be_infinite(op.name())) return;
    if (std::ranges::all_of(tensors_in(op.outputs()), has_only_finite)) return;
    const bool is_loss = frame.place.pass == LayerPass::loss;
    found_ = pass() == LayerPass::backward
                 ? fmt::format("the backward pass of {} ({})", layer_text(frame.place), frame.node)
                 : fmt::format("{}{} ({}){}", is_loss ? "" : "the forward pass of ",
                               layer_text(frame.place), frame.place.op, cause(call));
  }

  [[nodiscard]] std::string cause(const LayerCall& call) const {
    for (const at::Tensor& input : call.inputs) {
      if (has_only_finite(input)) continue;
      const std::string* name = parameter_of(input);
      return name == nullptr ? ", whose input was not finite"
                             : fmt::format(", whose '{}' was not finite", *name);
    }
    return {};
  }

  std::string found_;
};

AnomalyDetector::AnomalyDetector(const stage::Model& model)
    : state_(std::make_shared<State>(model)), scope_(state_, LayerUse::watch) {}

void AnomalyDetector::enter(Pass pass) { state_->enter(pass); }
const std::string& AnomalyDetector::found() const { return state_->found(); }

}  // namespace trainctl::train
