#pragma once

#include "config/schema/schema.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <string>
#include <vector>

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

/// One sample as a model sees it, and what is asked of the model.
struct ModelInput {
  SampleKind kind;
  std::vector<std::int64_t> shape;  // (C, H, W) of images, the extents of a row, (T) of tokens
  std::int64_t outputs = 0;         // the classes, the tokens there are, or the numbers to learn
};

/// Why a model does not take such samples, and what to do.
struct Refusal {
  std::string message;
  std::string hint;
  std::string key = {};  // of the model's options, e.g. "layers.3"; empty: the model itself
};

/// What the options of the model say of such samples: nothing where they have no say.
std::vector<Refusal> refusals(const config::Stage& model, const ModelInput& input);

/// Whether the model is one of those that may convolve images, told by its name alone.
bool may_have_convolutions(const config::Stage& model);

}  // namespace trainctl::spec
