#include "engine/quantize/quantizer.hpp"

#include "base/error.hpp"
#include "engine/failure.hpp"
#include "engine/resolve/step_probe.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::engine {
namespace {

namespace jit = torch::jit;

using Params = std::unordered_map<const jit::Value*, QuantizationParams>;

/// Calls an operator that has no C++ function, with a result of a custom class.
c10::IValue call(const char* name, std::vector<c10::IValue> stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack.front();
}

c10::IValue optional_tensor(const at::Tensor& tensor) {
  return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
}

/// Returns weight and bias in the form that the quantized operator of the layer takes.
c10::IValue packed_weight(const Int8Layer& layer, const Int8Plan& plan) {
  const at::Tensor weight = at::quantize_per_channel(
      layer.weight, layer.weight_scales, at::zeros(layer.weight_scales.sizes(), at::kLong),
      /*axis=*/0, at::kQInt8);
  const c10::IValue bias = optional_tensor(layer.bias);
  if (layer.kind == Int8Kind::linear) return call("quantized::linear_prepack", {weight, bias});
  const auto argument = [&](std::size_t i) { return plan.constants.at(layer.node->input(i)); };
  constexpr std::size_t kStride = 3, kPadding = 4, kDilation = 5, kGroups = 8;
  return call("quantized::conv2d_prepack", {weight, bias, argument(kStride), argument(kPadding),
                                            argument(kDilation), argument(kGroups)});
}

/// Returns the params of the layer's output; those of other layers have no meaning.
QuantizationParams params_of(const Int8Layer& layer, const Params& params) {
  if (layer.trained) return *layer.trained;
  const auto found = params.find(layer.observed);
  return found == params.end() ? QuantizationParams() : found->second;
}

/// Builds the int8 graph and its module from a plan.
class Int8Graph {
 public:
  Int8Graph(const Int8Plan& plan, const Params& params) : plan_(plan), params_(params) {
    self_ = graph_->addInput("self")->setType(module_.type());
    const jit::Value* input = plan.traced.graph->inputs().back();
    real_[input] = graph_->addInput("input");
    module_.register_attribute("training", c10::BoolType::get(), /*v=*/false);
    for (const Int8Layer& layer : plan.layers) add(layer);
    graph_->registerOutput(real(plan.traced.graph->outputs()[0]));
  }

  [[nodiscard]] TracedModel result() const { return {module_, graph_}; }

 private:
  using Arguments = std::initializer_list<jit::NamedValue>;
  jit::Value* insert(const std::string& operation, Arguments arguments) {
    return graph_->insert(c10::Symbol::fromQualString(operation), arguments);
  }

  void add(const Int8Layer& layer) {
    jit::Node& node = *layer.node;
    const auto operation = [&](const char* name) {
      return std::string("quantized::") + name + (layer.relu ? "_relu" : "");
    };
    const auto params = params_of(layer, params_);
    switch (layer.kind) {
      case Int8Kind::other: return copy(node, /*quantized=*/false);
      case Int8Kind::unscaled:
        copy(node, /*quantized=*/true);
        int8_[layer.output] = int8_.at(node.output(0));
        return;
      case Int8Kind::linear:
        real_[layer.output] =
            insert("quantized::linear_dynamic",
                   {real(node.input(0)), attribute(packed_weight(layer, plan_)), true});
        return;
      case Int8Kind::quantization:
        int8_[layer.output] = quantize(real(node.input(0)), params);
        return;
      case Int8Kind::convolution:
        int8_[layer.output] = insert(operation("conv2d"),
                                     {int8(node.input(0)), attribute(packed_weight(layer, plan_)),
                                      params.scale, params.zero_point});
        return;
      case Int8Kind::addition:
        int8_[layer.output] = insert(operation("add"), {int8(node.input(0)), int8(node.input(1)),
                                                        params.scale, params.zero_point});
        return;
      case Int8Kind::hardswish:
        int8_[layer.output] =
            insert(operation("hardswish"), {int8(node.input(0)), params.scale, params.zero_point});
    }
  }

  /// Copies the node; a quantized operation has a quantized first input and output.
  void copy(jit::Node& node, bool quantized) {
    const auto new_input = [&](jit::Value* input) {
      if (quantized && input == node.input(0)) return int8(input);
      return quantized ? pair(input) : real(input);
    };
    for (jit::Value* input : node.inputs()) new_input(input);  // inserted before the copy
    jit::Node* copied = graph_->createClone(&node, new_input);
    graph_->insertNode(copied);
    for (std::size_t i = 0; i < node.outputs().size(); ++i)
      (quantized ? int8_ : real_)[node.output(i)] = copied->output(i);
  }

  /// Returns a constant; a list of one size becomes one of two, which quantized pooling requires.
  jit::Value* pair(const jit::Value* value) {
    const c10::IValue& known = plan_.constants.at(value);
    if (!known.isIntList() || known.toIntList().size() != 1) return real(value);
    const std::int64_t size = known.toIntList().get(0);
    return graph_->insertConstant(std::vector<std::int64_t>{size, size});
  }

  jit::Value* quantize(jit::Value* value, const QuantizationParams& params) {
    return insert("aten::quantize_per_tensor",
                  {value, params.scale, params.zero_point, static_cast<std::int64_t>(at::kQUInt8)});
  }

  jit::Value* int8(const jit::Value* value) {
    jit::Value*& found = int8_[value];
    if (found == nullptr) found = quantize(real(value), params_.at(value));
    return found;
  }

  jit::Value* real(const jit::Value* value) {
    jit::Value*& found = real_[value];
    if (found != nullptr) return found;
    const auto constant = plan_.constants.find(value);
    if (constant == plan_.constants.end())
      return found = insert("aten::dequantize", {int8_.at(value)});
    const c10::IValue& known = constant->second;
    return found = known.isTensor() ? attribute(known.toTensor().detach())
                                    : graph_->insertConstant(known);
  }

  /// Adds the value to the module and returns it in the graph.
  jit::Value* attribute(const c10::IValue& value) {
    const std::string name = fmt::format("{}_{}", value.isTensor() ? "tensor" : "packed", count_++);
    if (value.isTensor()) {
      module_.register_buffer(name, value.toTensor());
    } else {
      module_.register_attribute(name, value.type(), value);
    }
    return graph_->insertGetAttr(self_, name);
  }

  const Int8Plan& plan_;
  const Params& params_;
  jit::Module module_{c10::QualifiedName("__torch__.Int8Model")};
  std::shared_ptr<jit::Graph> graph_ = std::make_shared<jit::Graph>();
  jit::Value* self_ = nullptr;
  std::unordered_map<const jit::Value*, jit::Value*> real_;  // float32 by value of the plan
  std::unordered_map<const jit::Value*, jit::Value*> int8_;  // quantized
  std::size_t count_ = 0;                                    // attributes
};

bool chooses_range(const Int8Layer& layer) {
  return layer.kind == Int8Kind::convolution || layer.kind == Int8Kind::addition ||
         layer.kind == Int8Kind::hardswish;
}

Int8Plan plan_for(stage::Model& model, const stage::ModelContext& shape) {
  constexpr std::int64_t kRows = 3;
  try {
    return plan_int8(trace_model(model, shape, InPlace::replaced),
                     made_up_batch(shape, kRows, at::kCPU).inputs);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::config, "cannot quantize the model: " + cause_of(error));
  }
}

}  // namespace

Quantizer::Quantizer(stage::Model& model, const stage::ModelContext& shape, spec::Observer observer)
    : plan_(plan_for(model, shape)) {
  for (const Int8Layer& layer : plan_.layers) {
    if (chooses_range(layer) && !layer.trained) watch(layer.observed, observer);
    jit::Value* input = layer.node->inputs().empty() ? nullptr : layer.node->input(0);
    if (layer.kind == Int8Kind::convolution && !plan_.int8.contains(input)) watch(input, observer);
  }
  calibration_ = program_with(plan_.traced, watched_);
}

void Quantizer::watch(jit::Value* value, spec::Observer observer) {
  if (ranges_.try_emplace(value, observer).second) watched_.push_back(value);
}

std::int64_t Quantizer::weights() const {
  return std::ranges::count_if(plan_.layers,
                               [](const Int8Layer& layer) { return layer.weight.defined(); });
}

at::Tensor Quantizer::calibrate(const at::Tensor& inputs) {
  constexpr std::int64_t kRows = 32;  // all activations of a part of the batch are in memory
  std::vector<at::Tensor> logits;
  for (const at::Tensor& rows : inputs.split(kRows)) {
    const std::vector<c10::IValue> values = run_program(calibration_, plan_.traced, rows);
    logits.push_back(values.front().toTensor());
    for (std::size_t i = 0; i < watched_.size(); ++i)
      ranges_.at(watched_[i]).add(values[i + 1].toTensor());
  }
  return at::cat(logits);
}

Quantizer::Params Quantizer::params() const {
  Params params;
  for (const auto& [value, range] : ranges_) params.emplace(value, range.params());
  return params;
}

std::vector<QuantizedLayer> Quantizer::layers() const {
  const Params all = params();
  std::vector<QuantizedLayer> layers;
  for (const Int8Layer& layer : plan_.layers) {
    if (layer.kind == Int8Kind::other || layer.kind == Int8Kind::unscaled) continue;
    QuantizedLayer& added = layers.emplace_back(
        QuantizedLayer{.kind = layer.kind, .weight_scales = layer.weight_scales});
    if (layer.kind == Int8Kind::linear) continue;
    const auto input = all.find(layer.node->input(0));
    if (input != all.end() && !plan_.int8.contains(input->first)) added.input = input->second;
    added.output = params_of(layer, all);
  }
  return layers;
}

std::string Quantizer::script() const {
  try {
    const Params all = params();
    return script_of(Int8Graph(plan_, all).result());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::config, "cannot quantize the model: " + cause_of(error));
  }
}

}  // namespace trainctl::engine
