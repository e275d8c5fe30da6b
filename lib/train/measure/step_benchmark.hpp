#pragma once

#include "train/loop/observer.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::train {

/// The time of a run's steps, which decides whether a replay is cheap enough.
struct ReplayCost {
  double training_s = 0;  // wall time of all epochs of this process
  double passes_s = 0;    // the part spent in forward and backward passes
  std::int64_t batches = 0;

  /// Returns how many steps a replay may run, including warm-up. Returns 0 if it would cost more
  /// than 1 % of the training or two seconds, or if there would be too few steps for a result.
  [[nodiscard]] std::int64_t steps() const;
  /// Returns the seconds that the replay of another setting may take: 1 % of the training, at most
  /// two.
  [[nodiscard]] double setting_budget_s() const;
};

/// Forward and backward time with one setting changed.
template <class Value>
struct ReplayedSetting {
  Value value{};
  double step_s = 0;
};

/// The measured times. A setting that was not tried, or that failed, is nullopt.
struct ReplayedBatch {
  double step_s = 0;                                               // forward and backward, median
  std::int64_t steps = 0;                                          // number of timed steps
  std::optional<ReplayedSetting<std::int64_t>> larger_batch = {};  // rows
  std::optional<ReplayedSetting<int>> other_threads = {};
  std::optional<ReplayedSetting<spec::Precision>> precision = {};
};

/// A batch of the run on a CPU, and the options of its forward pass.
struct ReplayBatch {
  const device::DeviceBatch& batch;
  ForwardOptions forward;
  std::int64_t steps = 0;  // from ReplayCost::steps()
  /// Seconds for each other setting; 0: other settings are not tried.
  double setting_budget_s = 0;
  bool has_bf16 = false;  // the CPU has bf16 instructions
};

/// Times forward and backward passes of one batch, filled up to full size with its own rows, for at
/// most two seconds. Within the budget it also times a larger batch (2, 4 or 8 times the rows),
/// another number of threads (all cores, or one) and bf16. Discards gradients, and restores buffers
/// and generators. Returns nullopt if a step fails or the run receives a stop request.
std::optional<ReplayedBatch> replay_batch(const Session& session, const ReplayBatch& replay);

/// Measures at the end of a run the time of a step that never waits for data, if that is cheap. It
/// runs on a CPU with one rank only: on a GPU the loader does not compete for the device, so the
/// measured step times suffice, and several ranks would have to measure together.
class StepBenchmark final : public Observer {
 public:
  StepBenchmark(const Session& session, const Options& options, StepRunner& step)
      : session_(session), options_(options), step_(step) {}

  void on_epoch_report(LoopState& state) override;
  void on_run_end(LoopState& state) override;

 private:
  const Session& session_;
  const Options& options_;
  StepRunner& step_;
  ReplayCost cost_;
};

}  // namespace trainctl::train
