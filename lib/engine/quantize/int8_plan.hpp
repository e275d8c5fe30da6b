#pragma once

#include "engine/quantize/activation_range.hpp"
#include "engine/quantize/model_trace.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace trainctl::engine {

/// How an operation is computed in the int8 model: from and to quantized tensors, except `linear`,
/// which quantizes its float32 input itself, and `other`, which stays in float32. `quantization`
/// only quantizes; `unscaled` is an operation whose output has the scale of its input.
enum class Int8Kind { convolution, linear, addition, hardswish, quantization, unscaled, other };

/// An operation of the graph, with the operations that are computed together with it.
struct Int8Layer {
  Int8Kind kind = Int8Kind::other;
  torch::jit::Node* node = nullptr;
  torch::jit::Value* output = nullptr;    // of the last of the operations
  torch::jit::Value* observed = nullptr;  // the value whose range the quantized output has
  bool relu = false;
  at::Tensor weight = {};                          // with the scale of a batch norm that follows
  at::Tensor bias = {};                            // may be undefined
  at::Tensor weight_scales = {};                   // float64, one per output channel
  std::optional<QuantizationParams> trained = {};  // by quantization-aware training
};

/// The parts of a traced model that compute in int8.
struct Int8Plan {
  TracedModel traced;
  std::vector<Int8Layer> layers;  // in the order of the graph
  /// The values of the graph that do not depend on its input.
  std::unordered_map<const torch::jit::Value*, c10::IValue> constants = {};
  std::unordered_set<const torch::jit::Value*> int8 = {};  // values that are quantized tensors
};

/// Plans the int8 form of a traced model without in-place operations; `example` is a batch. Throws
/// Error(config) if the model has no convolution or linear layer, or contains control flow.
Int8Plan plan_int8(TracedModel traced, const at::Tensor& example);

/// Returns a program that computes the output of the graph, then the values `wanted`.
torch::jit::Code program_with(const TracedModel& traced,
                              std::span<torch::jit::Value* const> wanted);

/// Runs the program and returns its outputs.
std::vector<c10::IValue> run_program(const torch::jit::Code& program, const TracedModel& traced,
                                     const at::Tensor& inputs);

}  // namespace trainctl::engine
