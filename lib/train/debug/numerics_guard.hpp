#pragma once

#include "train/debug/numerics_file.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainctl::train {

/// Why and where a run ends as diverged.
struct Divergence {
  std::string cause;  // "the training loss is not finite"
  Position position;
  std::int64_t steps_ago = 0;  // a GPU tells late: so many steps before `position`
  double loss_scale = 1;
  bool weights_kept = true;  // they are those before that step
};

/// Leaves "diverged/step=000123/" in the run folder: rank_N.part, from which that step can be
/// repeated, and of rank 0 report.txt and report.json, which tell what the repetition at once
/// found. Ranks whose own batch was sound leave none, but for rank 0.
class NumericsDump {
 public:
  NumericsDump(const Session& session, const Options& options);

  /// Before each batch of training; costs no memory and a fraction of a microsecond.
  void begin(const data::Batch& batch, const device::DeviceBatch& on_device, double lr);
  /// The batch has passed: what fails from here on is none of it.
  void end() { batch_ = nullptr; }

  /// What the message of the failure is to say of it, in one clause. Never throws, so that it hides
  /// no cause.
  std::string write(const Divergence& divergence) noexcept;

 private:
  std::string write_all(const Divergence& divergence);
  void take_batch(const Divergence& divergence, Numerics& numerics);
  void reload(std::int64_t index, Numerics& numerics);
  void repeat(Numerics& numerics);
  [[nodiscard]] StepRecord record_of(const Divergence& divergence) const;

  const Session& session_;
  const Options& options_;
  KeptRandom random_;
  const data::Batch* batch_ = nullptr;  // null: none is under way
  const device::DeviceBatch* on_device_ = nullptr;
  double lr_ = 0;
};

/// "diverged/step=000123", below a run folder.
std::filesystem::path diverged_folder(std::int64_t global_step);

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
