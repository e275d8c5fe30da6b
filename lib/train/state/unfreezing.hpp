#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

namespace trainctl::train {

/// Trains frozen parameters from some epoch on (unfreeze_at). Before that they have no gradients,
/// so that the backward pass stops at them, optimizers skip them, and their batch norm keeps its
/// averages. They depend on the epoch only, so checkpoints contain nothing about them.
class Unfreezing final : public Observer {
 public:
  /// `session` must outlive it.
  explicit Unfreezing(const Session& session) : session_(session) {}

  void on_epoch_begin(LoopState& state) override {
    set_trained(session_.unfreezing, state.position.epoch);
  }

 private:
  const Session& session_;
};

}  // namespace trainctl::train
