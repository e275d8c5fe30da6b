#pragma once

#include "engine/quantize/int8_plan.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace trainctl::engine {

/// A layer of an int8 model.
struct QuantizedLayer {
  Int8Kind kind = Int8Kind::other;
  at::Tensor weight_scales;  // float64, one per output channel; undefined without a weight
  std::optional<QuantizationParams> input = {};   // nullopt: not quantized by this layer
  std::optional<QuantizationParams> output = {};  // nullopt: float32
};

/// Converts a float32 model to int8 with ATen's quantized operators, for the CPU. Convolutions with
/// the batch norm and ReLU after them, and additions of their outputs, use the ranges that
/// calibration finds; linear layers choose the range of their input for each batch. Weights are
/// symmetric, with one scale per output channel. All other operations remain in float32.
class Quantizer {
 public:
  /// The model is on a CPU, and changes to evaluation mode. Throws the errors of trace_model() and
  /// plan_int8().
  Quantizer(stage::Model& model, const stage::ModelContext& shape, spec::Observer observer);

  /// Returns the number of layers with int8 weights.
  [[nodiscard]] std::int64_t weights() const;
  /// Returns whether the int8 model depends on calibration.
  [[nodiscard]] bool needs_calibration() const { return !watched_.empty(); }
  /// Watches the activations of a batch, and returns the outputs of the float32 model.
  at::Tensor calibrate(const at::Tensor& inputs);
  /// Returns the quantized layers in the order of the model. Call it after the calibration.
  [[nodiscard]] std::vector<QuantizedLayer> layers() const;
  /// Returns the int8 model as a file for torch.jit.load. Call it after the calibration.
  [[nodiscard]] std::string script() const;

 private:
  using Params = std::unordered_map<const torch::jit::Value*, QuantizationParams>;
  void watch(torch::jit::Value* value, spec::Observer observer);
  [[nodiscard]] Params params() const;

  Int8Plan plan_;
  std::vector<torch::jit::Value*> watched_;
  std::unordered_map<const torch::jit::Value*, ActivationRange> ranges_;
  torch::jit::Code calibration_;  // returns the logits and the watched values
};

}  // namespace trainctl::engine
