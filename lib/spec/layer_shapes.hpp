#pragma once

#include "config/schema/schema.hpp"
#include "spec/compatibility.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What the layers of a sequential model share: the shapes that flow between them.

namespace trainctl::spec::layer {

using Shape = std::vector<std::int64_t>;  // of one sample: (C, H, W) of images, (T) of tokens

struct LayerInput {
  Shape shape;
  bool tokens = false;       // the numbers of tokens, which only an embedding takes
  std::int64_t outputs = 0;  // asked of the model: the classes, the tokens there are
};

/// What a layer makes of its input, or why it does not take it.
struct LayerStep {
  Shape shape;          // empty: not known, since the input does not fit
  std::string problem;  // empty: none
  std::string hint;
};

/// "16x28x28".
std::string shape_text(const Shape& shape);

/// A square that slides over height and width.
struct Window {
  std::int64_t kernel_size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

/// The images of `channels` that it leaves of an image.
LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels);

/// The refusal of what is no image, C x H x W.
LayerStep no_image();

}  // namespace trainctl::spec::layer

namespace trainctl::spec {

/// What the layer makes of its input; a residual's branches included.
layer::LayerStep step_of(const config::Stage& layer, const layer::LayerInput& input);

/// The way of a shape through lists of layers, and every layer that does not take what it gets.
class LayerWalk {
 public:
  /// The shape that leaves `layers`; nothing from the first layer on that does not say, or that
  /// could not be read. `place` stands in front of the layers' numbers: "layers.".
  std::optional<layer::Shape> through(const std::vector<config::Stage>& layers,
                                      layer::LayerInput input, const std::string& place);

  [[nodiscard]] const std::vector<Refusal>& refusals() const { return refusals_; }

 private:
  std::optional<layer::Shape> one(const config::Stage& layer, const layer::LayerInput& input,
                                  const std::string& place);
  std::optional<layer::Shape> residual(const config::Stage& layer, const layer::LayerInput& input,
                                       const std::string& place);
  void refuse(const config::Stage& layer, const layer::LayerInput& input, const std::string& place,
              const std::string& problem, std::string hint);

  std::vector<Refusal> refusals_;
};

}  // namespace trainctl::spec
