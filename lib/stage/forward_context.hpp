#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

namespace trainctl::stage {

/// Adds over the ranks of a run within a forward or backward pass. Every rank makes the same calls
/// in the same order.
class RankSum {
 public:
  virtual ~RankSum() = default;
  /// In place.
  virtual void add(const at::Tensor& tensor) = 0;
};

/// What a layer that looks at the whole batch needs of the other ranks.
struct BatchOfRanks {
  RankSum* sum = nullptr;  // null: the batch of this rank is all there is
  bool counts = true;      // false: this rank has no row in it, and computes along for nothing
};

/// What the forward pass of this thread is part of.
const BatchOfRanks& batch_of_ranks();

/// Says so while it lives.
class BatchOfRanksScope {
 public:
  explicit BatchOfRanksScope(const BatchOfRanks& batch);
  ~BatchOfRanksScope();
  BatchOfRanksScope(const BatchOfRanksScope&) = delete;
  BatchOfRanksScope& operator=(const BatchOfRanksScope&) = delete;

 private:
  BatchOfRanks was_;
};

/// Operations of this thread run in a mixed precision while it lives. The cache of casts is global,
/// and a cast that outlived an update would be stale: the outermost scope clears it.
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
