#pragma once

#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// Length of the vector that all of them make: 0-d, on their device, float32 or float64. Finite
/// where they are.
at::Tensor norm_of(at::TensorList tensors);

/// Bounds gradients, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_
/// do. Never waits for the device.
class Clipper {
 public:
  Clipper(double bound, spec::ClipAlgorithm algorithm);
  /// Returns the norm before clipping, 0-d and on the device; undefined where it took none.
  at::Tensor operator()(at::TensorList gradients) const;
  [[nodiscard]] bool takes_norm() const { return algorithm_ == spec::ClipAlgorithm::norm; }

 private:
  double bound_;
  spec::ClipAlgorithm algorithm_;
};

/// Keeps float16 gradients within range and steps that are not finite out of the weights, as
/// torch.amp.GradScaler: the loss is multiplied by a scale that halves after a step that overflowed
/// and doubles after 2,000 that did not. All of it is on the device.
class GradScaler {
 public:
  enum class Scaling { none, dynamic };
  /// What a step that is not finite leads to: the next one is tried, or every later one is left out
  /// too, so that the weights stay those before it.
  enum class AfterBad { goes_on, stays_out };
  /// With `none` the scale is 1 throughout: it only looks for what is not finite.
  GradScaler(at::Device device, Scaling scaling, AfterBad after_bad = AfterBad::goes_on);

  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale and looks whether all of them are finite. They are equal on
  /// all ranks, and so is what is found.
  void unscale(at::TensorList gradients);
  /// float32 [1]: 1 where one was not, of this step or, with `stays_out`, of one before.
  [[nodiscard]] const at::Tensor& found_inf() const { return found_inf_; }
  /// After the step: the next scale, and the counts.
  void update();

  [[nodiscard]] bool stays_out() const { return after_bad_ == AfterBad::stays_out; }

  /// These wait for the device.
  [[nodiscard]] double current_scale() const;
  [[nodiscard]] std::int64_t skipped() const;
  /// The longest row so far, also one that has ended since.
  [[nodiscard]] std::int64_t most_skipped_in_a_row() const;

  /// All that changes from step to step, live.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;

 private:
  Scaling scaling_;
  AfterBad after_bad_;
  at::Tensor scale_;           // float32 [1]
  at::Tensor growth_tracker_;  // int32 [1]
  at::Tensor found_inf_;       // float32 [1]
  at::Tensor skipped_;         // float32 [3]: in all, in a row, the most of these
};

}  // namespace trainctl::train
