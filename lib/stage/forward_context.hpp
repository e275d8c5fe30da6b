#pragma once

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

}  // namespace trainctl::stage
