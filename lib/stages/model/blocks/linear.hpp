#pragma once

#include "stages/model/blocks/scope.hpp"

#include <cstdint>

namespace trainctl::stages {

/// Draws the weight [out, in], and the bias if there is one, as nn.Linear does.
Linear make_linear(const Scope& scope, std::int64_t in, std::int64_t out, Bias bias = Bias::with);

}  // namespace trainctl::stages
