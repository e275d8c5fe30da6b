#include "spec/model/resnet.hpp"

#include <fmt/format.h>

namespace trainctl::spec::model {

std::vector<Refusal> ResnetCifar::refusals(const ModelInput& input) const {
  std::vector<Refusal> all = refuse_small(input, 2);
  if (depth % 6 != 2) {
    all.push_back({fmt::format("depth is {}: expected 6n + 2", depth),
                   "write 20, 32, 44, 56 or 110, as in the paper", "depth"});
  }
  return all;
}

}  // namespace trainctl::spec::model
