#pragma once

#include "train/debug/numerics_dump.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <string>

namespace trainctl::train {

/// Ends a run whose loss, gradients or weights are not finite, with a dump of the step. All ranks
/// see the same values, and end after the same step.
class NumericsGuard final : public Observer {
 public:
  /// The arguments outlive the guard.
  NumericsGuard(const Session& session, const Options& options, const Phases& phases,
                const StepRunner& step);

  /// Before each batch of training; costs no memory and a fraction of a microsecond.
  void before_batch(const data::Batch& batch, const device::DeviceBatch& on_device, double lr) {
    dump_.begin(batch, on_device, lr);
  }
  // The checks throw Error(diverged).
  void check(StepRunner::Result result, const LoopState& state);
  void check_loss(const char* split, double loss, const LoopState& state);
  /// Weights before they are evaluated or saved, and steps that were skipped.
  void check_weights(const LoopState& state);
  void check_skipped(const LoopState& state);
  /// Throws what an observer left in `state.diverged`.
  void check_reported(const LoopState& state) {
    if (state.diverged) fail(*state.diverged, state);
  }

  void on_step_end(LoopState& state) override;
  void on_train_epoch_end(LoopState& state) override;
  void on_run_end(LoopState& state) override;

 private:
  [[noreturn]] void fail(const DivergenceCause& cause, const LoopState& state);

  const Session& session_;
  const Options& options_;
  const Phases& phases_;
  const StepRunner& step_;
  NumericsDump dump_;
};

}  // namespace trainctl::train
