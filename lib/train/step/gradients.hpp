#pragma once

#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// Whether the host may read values: it costs nothing on a CPU, but a captured step must not.
enum class HostReads { on_cpu, never };

/// Returns the 2-norm over all tensors together: 0-d, on their device, float32 or float64. It is
/// finite if all values are.
at::Tensor norm_of(at::TensorList tensors, HostReads reads = HostReads::on_cpu);

/// Clips gradients in place like torch.nn.utils.clip_grad_norm_ and clip_grad_value_. Never
/// synchronizes with the device.
class Clipper {
 public:
  Clipper(double bound, spec::ClipAlgorithm algorithm, HostReads reads = HostReads::on_cpu);
  /// Returns the norm before clipping, 0-d on the device; undefined when clipping by value.
  at::Tensor operator()(at::TensorList gradients) const;
  [[nodiscard]] bool takes_norm() const { return algorithm_ == spec::ClipAlgorithm::norm; }

 private:
  double bound_;
  spec::ClipAlgorithm algorithm_;
  HostReads reads_;
};

/// Scales the loss so that float16 gradients stay in range, and skips non-finite steps, like
/// torch.amp.GradScaler: the scale halves after a step that overflowed and doubles after 2,000 that
/// did not. All state is on the device.
class GradScaler {
 public:
  enum class Scaling { none, dynamic };
  /// What follows a non-finite step: the next step runs normally, or every later step is skipped,
  /// too, so that the weights stay unchanged.
  enum class AfterNonFinite { continues, stops };
  /// With `none` the scale stays 1, and only non-finite steps are detected.
  GradScaler(at::Device device, Scaling scaling,
             AfterNonFinite after_non_finite = AfterNonFinite::continues);

  /// Returns the loss multiplied by the current scale.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale and checks whether all are finite. Without scaling, only
  /// reads them. The gradients, and so the result, are equal on all ranks.
  void unscale(at::TensorList gradients);
  /// Replaces unscale() without scaling: checks values that are finite if all gradients are, such
  /// as their norm in float64. They may be overwritten.
  void check(const at::Tensor& magnitudes);
  /// float32 [1]: 1 if a gradient was not finite, in this step or, with `stops_after_non_finite`,
  /// in an earlier one.
  [[nodiscard]] const at::Tensor& found_inf() const { return found_inf_; }
  /// Updates the scale and the counts after the step.
  void update();

  [[nodiscard]] bool scales() const { return scaling_ == Scaling::dynamic; }
  [[nodiscard]] bool stops_after_non_finite() const {
    return after_non_finite_ == AfterNonFinite::stops;
  }

  /// These functions synchronize with the device.
  [[nodiscard]] double current_scale() const;
  /// Returns the number of skipped steps.
  [[nodiscard]] std::int64_t skipped() const;
  /// Returns the longest series of skipped steps so far.
  [[nodiscard]] std::int64_t most_skipped_in_a_row() const;
  /// Returns the same as a tensor, float32 0-d on the device, without a synchronization.
  [[nodiscard]] at::Tensor longest_skipped_series() const {
    return skipped_.select(0, kLongestSeries);
  }
  /// The index of the longest series in the tensor "skipped" of state(), float32 [3].
  static constexpr std::int64_t kLongestSeries = 2;

  /// Returns all state that changes from step to step, which shares storage.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;

 private:
  void divide_and_check(at::TensorList tensors);

  Scaling scaling_;
  AfterNonFinite after_non_finite_;
  at::Tensor scale_;           // float32 [1]
  at::Tensor growth_tracker_;  // int32 [1]
  at::Tensor found_inf_;       // float32 [1]
  at::Tensor skipped_;  // float32 [3]: skipped in total, consecutively, and the longest series
};

}  // namespace trainctl::train
