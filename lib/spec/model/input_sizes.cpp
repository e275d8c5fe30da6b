// Which shapes of input the families of models refuse, and what to do about it.

#include "spec/model/convnext.hpp"
#include "spec/model/resnet.hpp"
#include "spec/model/vision_transformer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::spec::model {

std::vector<Refusal> refuse_small(const ModelInput& input, int halvings) {
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  const std::int64_t least = (std::int64_t{1} << (halvings - 1)) + 1;
  if (std::min(height, width) >= least) return {};
  return {{fmt::format("the images are {}x{}: the network halves them {} times and needs at least "
                       "{}x{}",
                       height, width, halvings, least, least),
           "let a transform bring them to that size, or choose model mlp"}};
}

std::vector<Refusal> ResnetCifar::refusals(const ModelInput& input) const {
  std::vector<Refusal> all = refuse_small(input, 2);
  if (depth % 6 != 2) {
    all.push_back({fmt::format("depth is {}: expected 6n + 2", depth),
                   "write 20, 32, 44, 56 or 110, as in the paper", "depth"});
  }
  return all;
}

std::vector<Refusal> ConvnextTiny::refusals(const ModelInput& input) const {
  constexpr std::int64_t kSmallest = 32;
  if (input.shape.size() != 3) return {};
  const std::int64_t height = input.shape[1];
  const std::int64_t width = input.shape[2];
  if (height >= kSmallest && width >= kSmallest) return {};
  return {{fmt::format("the images are {}x{}: convnext_tiny needs at least {}x{}", height, width,
                       kSmallest, kSmallest),
           fmt::format("let a transform bring them to {}x{} or more", kSmallest, kSmallest)}};
}

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
