#include "spec/model/convnext.hpp"

#include <fmt/format.h>

namespace trainctl::spec::model {

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

}  // namespace trainctl::spec::model
