#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Tensors side by side in flat copies, so that an exchange takes few calls. Each copy holds
/// tensors of one type and device, in their order, up to `cap_bytes`, or one that is larger.
class FlatTensors {
 public:
  /// The tensors stay the caller's; the copies are made once and used again.
  FlatTensors(const std::vector<at::Tensor>& tensors, std::size_t cap_bytes);

  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  [[nodiscard]] const at::Tensor& flat(std::size_t part) const { return parts_[part].flat; }
  /// From the tensors into their copy, and back.
  void gather(std::size_t part) const;
  void scatter(std::size_t part) const;

 private:
  struct Part {
    at::Tensor flat;
    std::vector<at::Tensor> tensors;
    std::vector<at::Tensor> views;  // of the flat copy, one for each
  };
  std::vector<Part> parts_;
};

/// Local SGD (Stich 2019): each rank takes its steps alone; the ranks average weights and buffers
/// every trainer.sync_every steps, and before a save, an average that takes them in, and the end of
/// the epoch or of the run. In between the ranks differ, and their optimizers always do.
class LocalSgdObserver final : public Observer {
 public:
  /// `steps_per_epoch`: optimizer steps.
  LocalSgdObserver(const Session& session, const Options& options, Phases& phases,
                   std::int64_t steps_per_epoch);

  void on_step_end(LoopState& state) override;
  /// Adds what averaging took since the last call; its seconds on a CPU alone.
  void on_epoch_report(LoopState& state) override { state.exchanged += std::exchange(stats_, {}); }

 private:
  void average();

  dist::Communicator& communicator_;
  const Options& options_;
  Phases& phases_;
  std::int64_t steps_per_epoch_;
  std::int64_t steps_ = 0;                   // since the ranks were alike
  FlatTensors averaged_;                     // weights, and buffers of floating point
  std::vector<stage::NamedTensor> counted_;  // buffers of whole numbers: rank 0's count
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
