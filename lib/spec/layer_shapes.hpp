#pragma once

#include "config/schema/schema.hpp"
#include "spec/compatibility.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Shape inference for the layers of a sequential model.

namespace trainctl::spec::layer {

using Shape = std::vector<std::int64_t>;  // of one sample: (C, H, W) for images, (T) for tokens

/// The input of a layer in a sequential model.
struct LayerInput {
  Shape shape;
  bool tokens = false;             // the input is token indices, which only an embedding accepts
  std::int64_t outputs = 0;        // of the model: number of classes, or tokens in the vocabulary
  std::int64_t vocab_size = 0;     // of tokens whose model outputs no tokens; 0: `outputs`
  std::int64_t padded_length = 0;  // of the model's samples, if they are padded tokens; otherwise 0
};

/// Returns the input of the first layer of a model.
LayerInput first_input(const ModelInput& input);

/// The output shape of a layer, or why it does not accept its input.
struct LayerStep {
  Shape shape;          // empty: unknown, because the input does not fit
  std::string problem;  // empty: no problem
  std::string hint;
};

/// Returns the number of values in one sample.
std::int64_t values_in(const Shape& shape);

/// Returns "16x28x28".
std::string shape_text(const Shape& shape);

/// A window that slides over each dimension after the channels and has the same size in each.
struct Window {
  std::int64_t kernel_size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

/// Returns the output for a window that slides over C x L or C x H x W and produces `channels`
/// channels.
LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels);

/// Returns the refusal of an input that is not an image, C x H x W.
LayerStep no_image();

}  // namespace trainctl::spec::layer

namespace trainctl::spec {

/// Returns the output of the layer for this input, also for layers that contain other layers.
layer::LayerStep step_of(const config::Stage& layer, const layer::LayerInput& input);

/// Follows a shape through lists of layers and collects every layer that does not accept its input.
class LayerWalk {
 public:
  /// Returns the output shape of `layers`; nullopt if a layer does not report its shape or could
  /// not be read. `place` is the prefix of the layers' numbers: "layers.".
  std::optional<layer::Shape> through(const std::vector<config::Stage>& layers,
                                      layer::LayerInput input, const std::string& place);

  [[nodiscard]] const std::vector<Refusal>& refusals() const { return refusals_; }

 private:
  std::optional<layer::Shape> one(const config::Stage& layer, const layer::LayerInput& input,
                                  const std::string& place);
  std::optional<layer::Shape> residual(const config::Stage& layer, const layer::LayerInput& input,
                                       const std::string& place);
  std::optional<layer::Shape> concat(const config::Stage& layer, const layer::LayerInput& input,
                                     const std::string& place);
  void refuse(const config::Stage& layer, const layer::LayerInput& input, const std::string& place,
              const std::string& problem, std::string hint);

  std::vector<Refusal> refusals_;
};

}  // namespace trainctl::spec
