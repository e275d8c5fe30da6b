#include "engine/quantize/int8_plan.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace trainctl::engine {
namespace {

namespace jit = torch::jit;

/// Operations on quantized tensors that keep scale and zero point.
constexpr std::array<std::string_view, 8> kUnscaled{
    "aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d",
    "aten::flatten",    "aten::dropout",    "aten::relu",
    "aten::relu6",      "aten::hardtanh"};

constexpr const char* kFakeQuantizedWeight = "aten::fake_quantize_per_channel_affine";

/// Returns the scale of each output channel as PyTorch's PerChannelMinMaxObserver does.
at::Tensor scales_of(const at::Tensor& weight) {
  constexpr double kLargest = 127.5;  // half of the range of int8
  const at::Tensor rows = weight.flatten(1);
  const at::Tensor largest = at::maximum(-rows.amin(1).clamp_max(0), rows.amax(1).clamp_min(0));
  return (largest / kLargest).clamp_min(std::numeric_limits<float>::epsilon()).to(at::kDouble);
}

class Planner {
 public:
  Planner(TracedModel traced, const at::Tensor& example) : plan_{std::move(traced), {}} {
    find_constants(example);
    for (jit::Node* node : plan_.traced.graph->nodes()) {
      if (varies(node->outputs())) add(node);
    }
    const bool has_weights = std::ranges::any_of(
        plan_.layers, [](const Int8Layer& layer) { return layer.weight.defined(); });
    ENSURE(config, has_weights,
           "cannot quantize the model: it has no conv2d or linear layer\nhint: int8 applies to "
           "these layers and to those between them");
  }

  Int8Plan take() { return std::move(plan_); }

 private:
  [[nodiscard]] bool varies(at::ArrayRef<jit::Value*> values) const {
    return std::ranges::any_of(values, [&](jit::Value* one) { return varying_.contains(one); });
  }

  /// Finds the values that depend on the input, and computes the others that they need.
  void find_constants(const at::Tensor& example) {
    jit::Graph& graph = *plan_.traced.graph;
    varying_.insert(graph.inputs().back());
    std::vector<jit::Value*> wanted;
    for (jit::Node* node : graph.nodes()) {
      ENSURE(config, node->blocks().empty(),
             "cannot quantize the model: it contains control flow ({})\nhint: choose a model "
             "without conditions and loops",
             node->kind().toQualString());
      if (varies(node->inputs())) {
        for (jit::Value* output : node->outputs()) varying_.insert(output);
        std::ranges::copy_if(node->inputs(), std::back_inserter(wanted),
                             [&](jit::Value* input) { return !varying_.contains(input); });
      } else if (is(node, kFakeQuantizedWeight)) {
        wanted.push_back(node->input(1));
      }
    }
    const std::vector<c10::IValue> values =
        run_program(program_with(plan_.traced, wanted), plan_.traced, example);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      plan_.constants.emplace(wanted[i], values[i + 1]);
  }

  static bool is(const jit::Node* node, std::string_view operation) {
    return operation == node->kind().toQualString();
  }

  [[nodiscard]] const c10::IValue& constant(const jit::Value* value) const {
    return plan_.constants.at(value);
  }

  /// Returns the constant, or an undefined tensor for None. Returns nullopt if the value is
  /// computed.
  [[nodiscard]] std::optional<at::Tensor> constant_tensor(const jit::Value* value) const {
    const auto found = plan_.constants.find(value);
    if (found == plan_.constants.end()) return std::nullopt;
    return found->second.isNone() ? at::Tensor() : found->second.toTensor();
  }

  [[nodiscard]] bool is_int8(const jit::Value* value) const { return plan_.int8.contains(value); }

  void add(jit::Node* node) {
    if (merges_norm(node) || merges_relu(node) || merges_quantization(node)) return;
    Int8Layer layer{.node = node, .output = node->output(0), .observed = node->output(0)};
    if (is(node, "aten::_convolution") || is(node, "aten::linear")) {
      set_weight(layer);
    } else if (is(node, "aten::add") && adds_equal_shapes(*node)) {
      layer.kind = Int8Kind::addition;
    } else if (is(node, "aten::hardswish") && is_int8(node->input(0))) {
      layer.kind = Int8Kind::hardswish;
    } else if (is(node, "aten::fake_quantize_per_tensor_affine")) {
      layer.kind = Int8Kind::quantization;
      layer.trained = params_in(*node);
    } else if (is_int8(node->inputs().empty() ? nullptr : node->input(0)) &&
               std::ranges::find(kUnscaled, std::string_view(node->kind().toQualString())) !=
                   kUnscaled.end()) {
      layer.kind = Int8Kind::unscaled;
    }
    if (layer.kind != Int8Kind::other && layer.kind != Int8Kind::linear)
      plan_.int8.insert(layer.output);
    made_by_[layer.output] = plan_.layers.size();
    plan_.layers.push_back(std::move(layer));
  }

  /// Makes the layer int8 if its weight is a constant of two or four dimensions.
  void set_weight(Int8Layer& layer) const {
    constexpr std::size_t kTransposed = 6;  // the argument of _convolution
    const jit::Node& node = *layer.node;
    const auto weight = constant_tensor(node.input(1));
    const auto bias = constant_tensor(node.input(2));
    const bool convolves = is(&node, "aten::_convolution");
    if (!weight || !bias || weight->dim() != (convolves ? 4 : 2)) return;
    if (convolves && constant(node.input(kTransposed)).toBool()) return;
    layer.kind = convolves ? Int8Kind::convolution : Int8Kind::linear;
    layer.weight = weight->detach();
    layer.bias = bias->defined() ? bias->detach() : *bias;
    const jit::Node* source = node.input(1)->node();
    layer.weight_scales = is(source, kFakeQuantizedWeight)
                              ? constant(source->input(1)).toTensor().to(at::kDouble)
                              : scales_of(layer.weight);
  }

  /// Returns the layer that computes the node's first input, if nothing else uses this value.
  Int8Layer* only_source(const jit::Node& node) {
    if (node.inputs().empty() || node.input(0)->uses().size() != 1) return nullptr;
    const auto found = made_by_.find(node.input(0));
    return found == made_by_.end() ? nullptr : &plan_.layers[found->second];
  }

  void extend(Int8Layer& layer, jit::Value* output) {
    made_by_[output] = made_by_.at(layer.output);
    layer.output = layer.observed = output;
    plan_.int8.insert(output);
  }

  bool merges_norm(jit::Node* node) {
    constexpr std::size_t kTraining = 5;
    if (!is(node, "aten::batch_norm")) return false;
    Int8Layer* layer = only_source(*node);
    if (layer == nullptr || layer->kind != Int8Kind::convolution || layer->relu) return false;
    if (constant(node->input(kTraining)).toBool()) return false;
    fold_norm(*layer, *node);
    extend(*layer, node->output());
    return true;
  }

  void fold_norm(Int8Layer& layer, const jit::Node& node) const {
    constexpr std::size_t kEps = 7;
    const at::Tensor mean = *constant_tensor(node.input(3));
    const at::Tensor inverse =
        at::rsqrt(*constant_tensor(node.input(4)) + constant(node.input(kEps)).toDouble());
    const at::Tensor gain = constant_tensor(node.input(1))->detach();
    const at::Tensor bias = layer.bias.defined() ? layer.bias : at::zeros_like(mean);
    layer.weight = layer.weight * (gain * inverse).view({-1, 1, 1, 1});
    layer.bias = (bias - mean) * inverse * gain + constant_tensor(node.input(2))->detach();
    layer.weight_scales = scales_of(layer.weight);
  }

  bool merges_relu(jit::Node* node) {
    const bool clamps = is(node, "aten::relu6") || is(node, "aten::hardtanh");
    if (!clamps && !is(node, "aten::relu")) return false;
    Int8Layer* layer = only_source(*node);
    if (layer == nullptr || layer->relu) return false;
    if (layer->kind != Int8Kind::convolution && layer->kind != Int8Kind::addition) return false;
    if (is(node, "aten::hardtanh") && constant(node->input(1)).toScalar().toDouble() != 0)
      return false;
    layer->relu = true;
    if (!clamps) {
      extend(*layer, node->output());
      return true;
    }
    layer->observed = node->output();  // but the upper bound remains a separate operation
    return false;
  }

  /// Training has chosen the range of the layer's output.
  bool merges_quantization(jit::Node* node) {
    if (!is(node, "aten::fake_quantize_per_tensor_affine")) return false;
    Int8Layer* layer = only_source(*node);
    if (layer == nullptr) return false;
    if (layer->kind == Int8Kind::unscaled && only_source(*layer->node) != nullptr) {
      // The bound of relu6 has the scale of the layer before it.
      Int8Layer* before = only_source(*layer->node);
      if (!before->relu || before->observed != layer->output) return false;
      before->trained = params_in(*node);
    } else if (layer->kind == Int8Kind::convolution || layer->kind == Int8Kind::addition ||
               layer->kind == Int8Kind::hardswish) {
      layer->trained = params_in(*node);
    } else {
      return false;
    }
    extend(*layer, node->output());
    return true;
  }

  [[nodiscard]] QuantizationParams params_in(const jit::Node& node) const {
    const c10::IValue& scale = constant(node.input(1));
    const c10::IValue& zero_point = constant(node.input(2));
    if (!scale.isTensor()) return {scale.toDouble(), zero_point.toInt()};
    return {device::value_of<float>(scale.toTensor(), "scale"),
            device::value_of<std::int32_t>(zero_point.toTensor(), "zero point")};
  }

  [[nodiscard]] bool adds_equal_shapes(const jit::Node& node) const {
    const auto shape = [](const jit::Value* value) {
      return value->type()->expect<c10::TensorType>()->sizes().concrete_sizes();
    };
    if (!is_int8(node.input(0)) || !is_int8(node.input(1))) return false;
    const auto factor = plan_.constants.find(node.input(2));
    return factor != plan_.constants.end() && factor->second.toScalar().toDouble() == 1 &&
           shape(node.input(0)) && shape(node.input(0)) == shape(node.input(1));
  }

  Int8Plan plan_;
  std::unordered_set<const jit::Value*> varying_;               // values that depend on the input
  std::unordered_map<const jit::Value*, std::size_t> made_by_;  // the layer with this output
};

}  // namespace

jit::Code program_with(const TracedModel& traced, std::span<jit::Value* const> wanted) {
  jit::Graph& graph = *traced.graph;
  const std::size_t outputs = graph.outputs().size();
  for (jit::Value* value : wanted) graph.registerOutput(value);
  jit::Code program(traced.graph, "");  // copies the graph
  while (graph.outputs().size() > outputs) graph.eraseOutput(graph.outputs().size() - 1);
  return program;
}

std::vector<c10::IValue> run_program(const jit::Code& program, const TracedModel& traced,
                                     const at::Tensor& inputs) {
  const at::NoGradGuard guard;
  std::vector<c10::IValue> stack{traced.module._ivalue(), inputs};
  jit::InterpreterState(program).run(stack);
  return stack;
}

Int8Plan plan_int8(TracedModel traced, const at::Tensor& example) {
  return Planner(std::move(traced), example).take();
}

}  // namespace trainctl::engine
