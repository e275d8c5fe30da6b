#pragma once

#include "train/debug/numerics_file.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trainctl::train {

/// The cause and the position of a divergence.
struct Divergence {
  std::string cause;  // "the training loss is not finite"
  Position position;
  std::int64_t steps_ago = 0;  // the bad step is this many before `position`: a GPU reports late
  double loss_scale = 1;
  bool weights_kept = true;  // the weights are still those from before the bad step
};

/// Writes "diverged/step=000123/" in the run folder: rank_N.part, from which --replay-step repeats
/// the step, and on rank 0 report.txt and report.json with the results of an immediate repetition.
/// A rank other than 0 writes nothing if its own batch was finite.
class NumericsDump {
 public:
  NumericsDump(const Session& session, const Options& options);

  /// Records the batch. Called before each training batch; takes a fraction of a microsecond and
  /// allocates nothing.
  void begin(const data::Batch& batch, const device::DeviceBatch& on_device, double lr);
  /// Marks the batch as done: later failures are not attributed to it.
  void end() { batch_ = nullptr; }

  /// Writes the dump and returns a clause for the error message that says where it is. Never
  /// throws, so that the original error is reported.
  std::string write(const Divergence& divergence) noexcept;

 private:
  std::string write_all(const Divergence& divergence);
  void take_batch(const Divergence& divergence, Numerics& numerics);
  void reload(std::int64_t index, Numerics& numerics);
  void repeat(Numerics& numerics);
  [[nodiscard]] StepRecord record_of(const Divergence& divergence) const;

  const Session& session_;
  const Options& options_;
  RngSnapshot random_;
  const data::Batch* batch_ = nullptr;  // null between batches
  const device::DeviceBatch* on_device_ = nullptr;
  double lr_ = 0;
};

/// Returns "diverged/step=000123", relative to a run folder.
std::filesystem::path diverged_folder(std::int64_t global_step);

/// Returns the divergence if more steps in a row were skipped than Options::may_skip allows.
/// `skipped` is the longest series after a step, `later` the number of steps since then.
std::optional<DivergenceCause> skipped_too_often(const StepRunner& step, const Options& options,
                                                 std::int64_t skipped, std::int64_t later = 0);

/// Fails a run whose loss, gradients or weights are not finite, with a dump of the step. All ranks
/// see the same values and fail after the same step.
class NumericsGuard final : public Observer {
 public:
  /// The arguments must outlive the guard.
  NumericsGuard(const Session& session, const Options& options, const Phases& phases,
                const StepRunner& step);

  /// Records the batch for the dump. Called before each training batch; takes a fraction of a
  /// microsecond and allocates nothing.
  void before_batch(const data::Batch& batch, const device::DeviceBatch& on_device, double lr) {
    dump_.begin(batch, on_device, lr);
  }
  // The checks throw Error(diverged).
  void check(StepRunner::Result result, const LoopState& state);
  void check_loss(const char* split, double loss, const LoopState& state);
  /// Checks the weights before they are evaluated or saved, and the number of skipped steps.
  void check_weights(const LoopState& state);
  void check_skipped(const LoopState& state);
  /// Throws the divergence that an observer has set in `state.diverged`.
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
