#pragma once

#include "config/stage.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec {

/// Whether a loss or a metric means anything for such targets: what its options say, or else
/// classes only.
bool takes(const config::Stage& stage, Targets targets);

/// Whether a model takes such samples: what its options say, or else images and rows, which it
/// flattens.
bool takes(const config::Stage& model, Inputs inputs);

}  // namespace trainctl::spec
