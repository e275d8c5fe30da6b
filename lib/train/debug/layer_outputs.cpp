#include "train/debug/layer_outputs.hpp"

#include "train/measure/layer_trace.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace trainctl::train {
namespace {

constexpr double kMinor = 100;  // what is so much smaller than the largest is left out

std::string name_of(at::ScalarType type) {
  if (type == at::kFloat) return "float32";
  if (type == at::kBFloat16) return "bfloat16";
  if (type == at::kHalf) return "float16";
  return c10::toString(type);
}

std::string where(const LayerPlace& place) {
  if (place.layer.empty()) return "before the first layer";
  return place.owns ? place.layer : "after " + place.layer;
}

/// Remembers the largest output of each layer.
class Outputs final : public LayerTrace {
 public:
  Outputs(const stage::Model& model, std::int64_t times) : LayerTrace(model), times_(times) {}

  [[nodiscard]] std::vector<LayerOutput> largest(std::size_t count) const {
    std::vector<LayerOutput> outputs;
    for (const auto& [layer, output] : by_layer_) outputs.push_back(output);
    std::ranges::stable_sort(outputs, std::greater<>(), &LayerOutput::mib);
    std::erase_if(outputs, [most = outputs.empty() ? 0 : outputs.front().mib](
                               const LayerOutput& output) { return output.mib < most / kMinor; });
    outputs.resize(std::min(count, outputs.size()));
    return outputs;
  }

 private:
  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    if (!call.outermost) return;
    for (const at::Tensor& output : tensors_in(op.outputs())) {
      if (is_own(output, call)) note(frame.place, output);
    }
  }

  /// Neither a view of an input nor the input itself.
  static bool is_own(const at::Tensor& output, const LayerCall& call) {
    return output.has_storage() && output.dim() > 0 &&
           std::ranges::none_of(call.inputs, [&](const at::Tensor& input) {
             return input.has_storage() && input.is_alias_of(output);
           });
  }

  void note(const LayerPlace& place, const at::Tensor& tensor) {
    const double mib =
        static_cast<double>(tensor.nbytes()) * static_cast<double>(times_) / (1 << 20);
    LayerOutput& known = by_layer_[place.layer];
    if (mib <= known.mib) return;
    known = {where(place), place.op, tensor.sizes().vec(), name_of(tensor.scalar_type()), mib};
    known.shape[0] *= times_;
  }

  std::int64_t times_;  // the rows that are seen make a batch
  std::map<std::string, LayerOutput> by_layer_;
};

/// Dropout and running statistics are left alone while it lives.
class Evaluates {
 public:
  explicit Evaluates(stage::Model& model) : model_(model) {
    model_.set_mode(stage::RunMode::evaluate);
  }
  ~Evaluates() { model_.set_mode(stage::RunMode::train); }
  Evaluates(const Evaluates&) = delete;
  Evaluates& operator=(const Evaluates&) = delete;

 private:
  stage::Model& model_;
};

}  // namespace

std::vector<LayerOutput> largest_outputs(stage::Model& model, const at::Tensor& inputs,
                                         const ForwardOptions& options, std::int64_t rows,
                                         std::size_t count) {
  const std::int64_t seen = std::max<std::int64_t>(inputs.size(0), 1);
  const auto outputs = std::make_shared<Outputs>(model, std::max<std::int64_t>(rows / seen, 1));
  {
    const Evaluates mode(model);
    const at::NoGradGuard no_gradients;
    const LayerScope scope(outputs, LayerUse::measurement);
    outputs->enter(LayerPass::forward);
    (void)forward(model, inputs, options);
  }
  return outputs->largest(count);
}

}  // namespace trainctl::train
