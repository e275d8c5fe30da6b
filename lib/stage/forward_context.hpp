#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl::stage {

/// Sums tensors over the ranks of a run within a forward or backward pass. Every rank makes the
/// same calls in the same order.
class RankSum {
 public:
  virtual ~RankSum() = default;
  /// Replaces `tensor` by its sum over the ranks.
  virtual void add(const at::Tensor& tensor) = 0;
};

/// Gives layers that need the whole batch, such as synchronized batch norm, access to the other
/// ranks.
struct BatchOfRanks {
  RankSum* sum = nullptr;  // null: only the batch of this rank counts
  bool counts = true;      // false: this rank has no rows and only joins the collectives
};

/// Returns the context of the forward pass that runs on this thread.
const BatchOfRanks& batch_of_ranks();

/// Sets the context of this thread while it lives, then restores the former one.
class BatchOfRanksScope {
 public:
  explicit BatchOfRanksScope(const BatchOfRanks& batch);
  ~BatchOfRanksScope();
  BatchOfRanksScope(const BatchOfRanksScope&) = delete;
  BatchOfRanksScope& operator=(const BatchOfRanksScope&) = delete;

 private:
  BatchOfRanks was_;
};

/// Adds 1 to a counter of a layer, int64 0-d. Within a CounterScope, it is added at the end.
void increment(const at::Tensor& counter);

/// Collects the counters that a forward pass of this thread increments, so that add() increments
/// them with one kernel instead of one per layer.
class CounterScope {
 public:
  CounterScope();
  /// Forgets the counters, as when the forward pass has thrown.
  ~CounterScope();
  CounterScope(const CounterScope&) = delete;
  CounterScope& operator=(const CounterScope&) = delete;
  /// Increments the collected counters.
  void add() const;
};

/// Returns the derivative of the value that this thread's step minimizes with respect to the mean
/// of the loss's rows: a loss with this factor can compute its gradient in the forward pass.
/// Returns nullopt if only the device knows it.
std::optional<double> loss_gradient();

/// Sets loss_gradient() of this thread while it lives, then restores the former one.
class LossGradientScope {
 public:
  explicit LossGradientScope(std::optional<double> factor);
  ~LossGradientScope();
  LossGradientScope(const LossGradientScope&) = delete;
  LossGradientScope& operator=(const LossGradientScope&) = delete;

 private:
  std::optional<double> was_;
};

/// Enables autocast for the operations of this thread while it lives. The cache of casts is global,
/// and a cast made before an optimizer step would be stale after it: the outermost scope clears the
/// cache.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType dtype, bool enabled = true)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        was_dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, was_dtype_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_dtype_;
};

}  // namespace trainctl::stage
