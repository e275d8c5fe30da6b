#pragma once

#include "base/error.hpp"
#include "train/loop/loop_state.hpp"
#include "train/state/saved_state.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// A duty of the training loop other than the steps: saving, logging, early stopping, averages, ...
/// The loop calls the hooks on all ranks in the same order; an observer sees the state and what its
/// constructor got, never another observer. Hooks may throw, except on_failure.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Before the first epoch, after a resume.
  virtual void on_run_begin(LoopState& /*state*/) {}
  /// The counters of the epoch are reset or, if `resumed_in_epoch`, restored.
  virtual void on_epoch_begin(LoopState& /*state*/) {}
  /// Before the first batch of an optimizer step is requested.
  virtual void on_step_begin(LoopState& /*state*/) {}
  /// After the update.
  virtual void on_step_end(LoopState& /*state*/) {}
  /// After the last step of an epoch, before its metrics are computed.
  virtual void on_train_epoch_end(LoopState& /*state*/) {}
  virtual void on_validation_begin(LoopState& /*state*/) {}
  /// `state.validation` says which batch that was. `Stop::signal` gives the validation up.
  virtual void on_validation_batch_end(LoopState& /*state*/) {}
  /// Once an epoch, also if it has no validation: its metrics are known. Averaged weights are still
  /// in the model.
  virtual void on_validation_end(LoopState& /*state*/) {}
  /// The epoch is done; what happens here counts in its time.
  virtual void on_epoch_end(LoopState& /*state*/) {}
  /// The time of the epoch is known. An epoch that a checkpoint holds is never reported again:
  /// emit first, write afterwards.
  virtual void on_epoch_report(LoopState& /*state*/) {}
  /// No epoch follows. The weights are those of training, neither averaged nor restored.
  virtual void on_train_end(LoopState& /*state*/) {}
  /// Last files and measurements.
  virtual void on_run_end(LoopState& /*state*/) {}
  /// The run fails with `cause`; what is worth keeping is written now.
  virtual void on_failure(LoopState& /*state*/, ErrorKind /*cause*/) noexcept {}

  // The observer's part of a checkpoint.

  /// The key of its values in a checkpoint; empty if it has none.
  [[nodiscard]] virtual std::string_view state_key() const { return {}; }
  virtual void serialize(StateArchive& /*archive*/) {}
  /// Live tensors. Asked for after serialize(), which may create them.
  [[nodiscard]] virtual std::vector<StateTensor> tensors() const { return {}; }
  /// Bytes that tensors() will have later in the run, and does not have yet.
  [[nodiscard]] virtual std::uint64_t expected_bytes() const { return 0; }
};

using Observers = std::vector<std::unique_ptr<Observer>>;

}  // namespace trainctl::train
