#pragma once

#include "config/schema/stage.hpp"
#include "spec/mixed_labels.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec {

/// Whether a loss or a metric means anything for such targets: what its options say, or else
/// classes only.
bool takes(const config::Stage& stage, Targets targets);

/// Whether a loss learns numbers as yes-or-no answers, or a metric counts such: what its options
/// say, or else not. Of a plug-in's loss of numbers nothing is known: it may.
bool takes(const config::Stage& stage, Answers answers);

/// Whether a loss takes the mixed labels of batch_transforms: what its options say, or else not. Of
/// a plug-in's nothing is known: it may, and says so when it is asked.
bool takes(const config::Stage& loss, MixedLabels mixed);

/// Whether a model takes such samples: what its options say, or else images and rows, which it
/// flattens.
bool takes(const config::Stage& model, Inputs inputs);

}  // namespace trainctl::spec
