#pragma once

#include "events/records.hpp"
#include "train/step/forward.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// Repeats a training step outside of training and examines it: when a run has diverged, and when
// --replay-step repeats the step in another process.

namespace trainctl::train {

struct StepParts {
  stage::Model& model;  // must be in training mode
  stage::Loss& loss;
  stage::Task& task = stage::supervised_task();
  stage::BatchSamples samples = {};  // of the batch
};

struct RepeatOptions {
  ForwardOptions forward;
  double loss_scale = 1;
};

/// The results for one batch alone: gradients are not reduced over ranks or batches, nor clipped or
/// averaged.
struct RepeatedStep {
  at::Tensor outputs;                         // of the model, as float32
  at::Tensor loss;                            // 0-d: the mean over the rows
  at::Tensor row_losses;                      // float32 [rows]; undefined: unknown
  std::vector<stage::NamedTensor> gradients;  // of the weights that received one
  std::vector<events::TensorSummary> layers;  // the outputs of each operator in the forward pass
  std::string first;  // operator with the first non-finite output; empty: all are finite

  /// Returns whether loss and gradients are finite.
  [[nodiscard]] bool is_finite() const;
};

/// Runs a forward and backward pass of the batch from the current generator states, then restores
/// weights, buffers and gradients. May be called while this thread's operators are being profiled.
RepeatedStep repeat_step(const StepParts& parts, const device::DeviceBatch& batch,
                         const RepeatOptions& options);

/// Hashes to compare two repetitions bit for bit.
struct StepDigests {
  std::string loss;  // as exact_text() prints it
  std::string outputs;
  std::string gradients;

  bool operator==(const StepDigests&) const = default;
};
StepDigests digests_of(const RepeatedStep& step);

/// Summarizes "inputs", "outputs", "loss", the weights and "gradient of ...": at most 200 tensors,
/// those with non-finite values first.
std::vector<events::TensorSummary> summaries_of(const stage::Model& model,
                                                const device::DeviceBatch& batch,
                                                const RepeatedStep& step);

}  // namespace trainctl::train
