#pragma once

#include "dist/communicator.hpp"
#include "stage/stages.hpp"
#include "train/parallel/flat_tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Local SGD (Stich 2019): each rank takes its steps alone, and every so many of them the ranks
/// average weights and buffers. Between them the ranks differ, and so do their optimizers for
/// good. With plain SGD and an exchange after every step it is ddp but for rounding.
class LocalSgd {
 public:
  struct Options {
    std::int64_t every = 1;  // optimizer steps
    std::size_t cap_bytes = std::size_t{25} << 20;
  };

  /// Model and communicator outlive it.
  LocalSgd(const stage::Model& model, dist::Communicator& communicator, const Options& options);

  /// Whether somebody needs the ranks alike after this step: who saves, validates, or ends.
  enum class Need { none, alike };
  /// After an optimizer step. Returns whether the ranks are alike now; all ranks agree.
  bool after_step(Need need);
  /// What averaging took since the last call; its seconds on a CPU alone.
  dist::SyncStats take_stats() { return std::exchange(stats_, {}); }

 private:
  void average();
  void exchange() const;

  dist::Communicator& communicator_;
  std::int64_t every_;
  std::int64_t steps_ = 0;                   // since they were alike
  FlatTensors averaged_;                     // weights, and buffers of floating point
  std::vector<stage::NamedTensor> counted_;  // buffers of whole numbers: rank 0's count
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
