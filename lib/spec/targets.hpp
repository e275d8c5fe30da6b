#pragma once

#include "config/stage.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec {

/// Whether a loss or a metric means anything for such targets: what its options say, or else
/// classes only.
bool takes(const config::Stage& stage, Targets targets);

/// Whether a loss learns numbers as yes-or-no answers, or a metric counts such: what its options
/// say, or else not.
bool takes(const config::Stage& stage, Answers answers);

/// Whether a model takes such samples: what its options say, or else images and rows, which it
/// flattens.
bool takes(const config::Stage& model, Inputs inputs);

}  // namespace trainctl::spec
