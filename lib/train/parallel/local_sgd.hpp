#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainctl::train {

/// Packs tensors into flat copies so that a collective takes few calls. Each copy holds tensors of
/// one dtype and device, in their order, up to `cap_bytes`, or a single larger tensor.
class FlatTensors {
 public:
  /// The caller still owns the tensors. The copies are allocated once and reused.
  FlatTensors(const std::vector<at::Tensor>& tensors, std::size_t cap_bytes);

  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  [[nodiscard]] const at::Tensor& flat(std::size_t part) const { return parts_[part].flat; }
  /// Copy the tensors into the flat copy, and back.
  void gather(std::size_t part) const;
  void scatter(std::size_t part) const;

 private:
  struct Part {
    at::Tensor flat;
    std::vector<at::Tensor> tensors;
    std::vector<at::Tensor> views;  // into the flat copy, one for each tensor
  };
  std::vector<Part> parts_;
};

/// Local SGD (Stich 2019): each rank trains independently. The ranks average weights and buffers
/// every trainer.sync_every steps, before a save, before a weight average includes them, and at the
/// end of the epoch and of the run. In between the weights differ between ranks, and the optimizer
/// states always do.
class LocalSgdObserver final : public Observer {
 public:
  /// `steps_per_epoch` counts optimizer steps.
  LocalSgdObserver(const Session& session, const Options& options, Phases& phases,
                   std::int64_t steps_per_epoch);

  void on_step_end(LoopState& state) override;
  /// Adds the cost of averaging since the last call to the report; the seconds are known on a CPU
  /// only.
  void on_epoch_report(LoopState& state) override { state.exchanged += std::exchange(stats_, {}); }

 private:
  void average();

  dist::Communicator& communicator_;
  const Options& options_;
  Phases& phases_;
  std::int64_t steps_per_epoch_;
  std::int64_t steps_ = 0;           // since the ranks had equal weights
  FlatTensors averaged_;             // weights and floating-point buffers
  std::vector<at::Tensor> counted_;  // integer buffers, which are broadcast from rank 0
  dist::SyncStats stats_;
};

}  // namespace trainctl::train
