#pragma once

#include "spec/model/vision_transformer.hpp"
#include "stage/stages.hpp"

#include <memory>

namespace trainctl::stages {

struct TransformerSize {
  std::int64_t width = 0;
  std::int64_t depth = 0;
  std::int64_t heads = 0;
  std::int64_t inner = 0;  // width of the MLP between its two layers
};

/// torchvision's VisionTransformer, of any number of channels and of oblong images too. Throws
/// Error(config) where patches do not cover the images.
std::unique_ptr<stage::Model> make_vision_transformer(const TransformerSize& size,
                                                      const spec::model::VisionTransformer& options,
                                                      const stage::ModelContext& context);

}  // namespace trainctl::stages
