#pragma once

#include "events/records.hpp"
#include "train/step/forward.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// A training step looked at closely, outside of training: when a run has diverged, and when that
// step is repeated by another process.

namespace trainctl::train {

struct StepParts {
  stage::Model& model;  // in the mode of training
  stage::Loss& loss;
};

struct RepeatOptions {
  ForwardOptions forward;
  double loss_scale = 1;
};

/// Of one batch alone: nothing is shared with other ranks or batches, clipped or averaged.
struct RepeatedStep {
  at::Tensor outputs;                         // of the model, in float32
  at::Tensor loss;                            // 0-d: the mean of the rows
  at::Tensor row_losses;                      // float32 [rows]; undefined where they are not known
  std::vector<stage::NamedTensor> gradients;  // of the weights that got one
  std::vector<events::TensorSummary> layers;  // what each operator of the forward pass gave
  std::string first;  // where the first value came up that is not finite; empty: nowhere

  [[nodiscard]] bool is_finite() const;
};

/// Forward and backward pass of the batch, whose draws come from the generators as they stand.
/// Weights, buffers and gradients are afterwards what they were. Works beside whatever else
/// watches the operators of this thread.
RepeatedStep repeat_step(const StepParts& parts, const device::DeviceBatch& batch,
                         const RepeatOptions& options);

/// To compare two of them bit by bit.
struct StepDigests {
  std::string loss;  // exact_text
  std::string outputs;
  std::string gradients;

  bool operator==(const StepDigests&) const = default;
};
StepDigests digests_of(const RepeatedStep& step);

/// "inputs", "outputs", "loss", the weights and "gradient of ...", at most 200, those with values
/// that are not finite first.
std::vector<events::TensorSummary> summaries_of(const stage::Model& model,
                                                const device::DeviceBatch& batch,
                                                const RepeatedStep& step);

}  // namespace trainctl::train
