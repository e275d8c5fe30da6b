#pragma once

#include "config/schema/schema.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::spec {

/// Returns whether a loss, a metric or a task supports such targets: the answer of its options, by
/// default only for classes.
bool takes(const config::Stage& stage, Targets targets);

/// Returns whether a loss supports yes/no targets, or a metric counts them: the answer of its
/// options, by default no. For a plug-in's loss of numbers the answer is yes, because it is
/// unknown.
bool takes(const config::Stage& stage, Answers answers);

/// Returns whether a loss supports the mixed labels of batch_transforms: the answer of its options,
/// by default no. For a plug-in's loss the answer is yes; forward_mixed() throws if it does not.
bool takes(const config::Stage& loss, MixedLabels mixed);

/// Returns whether a model supports such samples: the answer of its options, by default for images
/// and rows, which it flattens.
bool takes(const config::Stage& model, Inputs inputs);

/// One sample in the form that a model receives, and the number of outputs.
struct ModelInput {
  SampleKind kind;
  std::vector<std::int64_t> shape;  // (C, H, W) for images, the shape of a row, (T) for tokens
  std::int64_t outputs = 0;         // number of classes, of tokens, or of regression targets
  std::vector<std::int64_t> output_shape = {};  // (C, H, W) of images that it makes; else empty
};

/// Returns the samples that the model, the loss and the metrics get from the task, by default those
/// of the data set. A shape or a number of outputs that is not known yet is empty or 0.
ModelInput model_input(const config::Stage& task, ModelInput data);

/// Returns the name of the task; for `auto` that of the task for such targets.
std::string task_name(const config::Stage& task, Targets targets);

/// Why a model does not accept samples, and what to do.
struct Refusal {
  std::string message;
  std::string hint;
  std::string key = {};  // of the model's options, e.g. "layers.3"; empty: the model itself
};

/// Returns the refusals of the options of a model or a task for such samples; none if the options
/// do not check samples.
std::vector<Refusal> refusals(const config::Stage& stage, const ModelInput& input);

/// Returns whether the model may contain 2-d convolutions, based on its name only.
bool may_have_convolutions(const config::Stage& model);

}  // namespace trainctl::spec
