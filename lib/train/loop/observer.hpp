#pragma once

#include "base/error.hpp"
#include "train/loop/loop_state.hpp"
#include "train/state/saved_state.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// A callback of the training loop, like a Lightning callback: saving, logging, early stopping,
/// averaging, ... The loop calls the hooks on all ranks in the same order. An observer sees the
/// state and its constructor arguments, never another observer. Hooks may throw, except on_failure.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Called before the first epoch and after a resume.
  virtual void on_run_begin(LoopState& /*state*/) {}
  /// Called with the counters of the epoch reset or, if `resumed_in_epoch`, restored.
  virtual void on_epoch_begin(LoopState& /*state*/) {}
  /// Called before the first batch of an optimizer step is requested.
  virtual void on_step_begin(LoopState& /*state*/) {}
  /// Called after the optimizer's update.
  virtual void on_step_end(LoopState& /*state*/) {}
  /// Called after a validation within an epoch, with its values in `state.validated`, and averaged
  /// weights in the model.
  virtual void on_interval_validation_end(LoopState& /*state*/) {}
  /// Called after a step and the validation that may follow it, to save the state.
  virtual void on_step_save(LoopState& /*state*/) {}
  /// Called after the last step of an epoch, before its metrics are computed.
  virtual void on_train_epoch_end(LoopState& /*state*/) {}
  virtual void on_validation_begin(LoopState& /*state*/) {}
  /// `state.validation` has the position of the batch. Setting `Stop::signal` cancels the
  /// validation.
  virtual void on_validation_batch_end(LoopState& /*state*/) {}
  /// Called once per epoch, even without validation, when the metrics are known. The model still
  /// holds averaged weights.
  virtual void on_validation_end(LoopState& /*state*/) {}
  /// Called at the end of the epoch; the time spent here is part of the epoch's time.
  virtual void on_epoch_end(LoopState& /*state*/) {}
  /// Called when the time of the epoch is known. An epoch in a checkpoint is never reported again,
  /// so observers emit its events before they write the checkpoint.
  virtual void on_epoch_report(LoopState& /*state*/) {}
  /// Called after the last epoch. The model holds the trained weights, neither averaged nor
  /// restored.
  virtual void on_train_end(LoopState& /*state*/) {}
  /// Called at the end for the last files and measurements.
  virtual void on_run_end(LoopState& /*state*/) {}
  /// Called when the run fails with `cause`, to write what is worth keeping.
  virtual void on_failure(LoopState& /*state*/, ErrorKind /*cause*/) noexcept {}

  // The observer's part of a checkpoint.

  /// Returns the key of the observer's values in a checkpoint; empty if it has none.
  [[nodiscard]] virtual std::string_view state_key() const { return {}; }
  virtual void serialize(StateArchive& /*archive*/) {}
  /// Returns tensors that share the observer's storage. Called after serialize(), which may create
  /// them.
  [[nodiscard]] virtual std::vector<StateTensor> tensors() const { return {}; }
  /// Returns the size of tensors() that will be allocated only later in the run, in bytes.
  [[nodiscard]] virtual std::uint64_t expected_bytes() const { return 0; }
};

using Observers = std::vector<std::unique_ptr<Observer>>;

}  // namespace trainctl::train
