#pragma once

#include "spec/model_input.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::spec::model {

/// What a network of convolutions says of images whose sides it halves `halvings` times: the last
/// time there has to be more than one pixel.
std::vector<Refusal> refuse_small(const ModelInput& input, int halvings);

}  // namespace trainctl::spec::model
