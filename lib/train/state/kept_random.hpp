#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace trainctl::train {

/// Where the generators of random_states() stood before a batch. `take` is for every batch: on a
/// CPU a copy of 2.5 KB, on a GPU of two numbers, and nothing is allocated.
class KeptRandom {
 public:
  explicit KeptRandom(at::Device device);
  ~KeptRandom();
  KeptRandom(const KeptRandom&) = delete;
  KeptRandom& operator=(const KeptRandom&) = delete;

  void take();
  /// What random_states() would have told then. The generators go on where they are now.
  [[nodiscard]] std::vector<stage::NamedTensor> states() const;

 private:
  struct Taken;

  at::Device device_;
  std::unique_ptr<Taken> taken_;
};

}  // namespace trainctl::train
