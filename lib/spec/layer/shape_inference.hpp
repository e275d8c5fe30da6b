#pragma once

#include "config/schema/schema.hpp"
#include "spec/compatibility.hpp"
#include "spec/layer/shapes.hpp"

#include <optional>
#include <string>
#include <vector>

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
