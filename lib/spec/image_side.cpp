#include "spec/image_side.hpp"

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

}  // namespace trainctl::spec::model
