#pragma once

#include "dist/communicator.hpp"
#include "stage/stages.hpp"
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

/// Averages the weights every trainer.sync_every steps, and before whatever looks at them: a save
/// that is due, an average that takes them in, the end of the epoch or of the run.
class LocalSgdObserver final : public Observer {
 public:
  /// `steps_per_epoch`: optimizer steps.
  LocalSgdObserver(const Session& session, const Options& options, Phases& phases,
                   std::int64_t steps_per_epoch);

  void on_step_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override { state.exchanged += local_sgd_.take_stats(); }

 private:
  const Options& options_;
  Phases& phases_;
  std::int64_t steps_per_epoch_;
  LocalSgd local_sgd_;
};

}  // namespace trainctl::train
