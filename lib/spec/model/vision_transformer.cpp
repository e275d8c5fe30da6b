#include "spec/model/vision_transformer.hpp"

#include <fmt/format.h>

namespace trainctl::spec::model {

std::vector<Refusal> VisionTransformer::refusals(const ModelInput& input) const {
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  if (height % patch_size == 0 && width % patch_size == 0) return {};
  const std::int64_t nearest = (height + patch_size - 1) / patch_size * patch_size;
  return {{fmt::format("the images are {}x{}: patches of {}x{} do not cover them", height, width,
                       patch_size, patch_size),
           fmt::format("let a transform bring them to a multiple of {}, such as {}x{}", patch_size,
                       nearest, nearest)}};
}

}  // namespace trainctl::spec::model
