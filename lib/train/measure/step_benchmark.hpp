#pragma once

#include "train/loop/observer.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::train {

/// What the steps of a run took, by which it is decided whether a replay is cheap.
struct ReplayCost {
  double training_s = 0;  // wall time of all epochs of this process
  double passes_s = 0;    // of it, forward and backward
  std::int64_t batches = 0;

  /// Steps that a replay may take, warming up included; 0: it would cost more than 1 % of the
  /// training or two seconds, or say too little.
  [[nodiscard]] std::int64_t steps() const;
  /// Seconds that the replay of another setting may take: 1 % of the training, two at most.
  [[nodiscard]] double setting_budget_s() const;
};

/// Forward and backward with one setting changed.
template <class Value>
struct ReplayedSetting {
  Value value{};
  double step_s = 0;
};

struct ReplayedBatch {
  double step_s = 0;       // forward and backward, the median
  std::int64_t steps = 0;  // that were timed
  std::optional<ReplayedSetting<std::int64_t>> larger_batch = {};  // rows
  std::optional<ReplayedSetting<int>> other_threads = {};
  std::optional<ReplayedSetting<spec::Precision>> precision = {};
};

/// A batch of the run on a CPU, and how its model computes.
struct ReplayBatch {
  const device::DeviceBatch& batch;
  ForwardOptions forward;
  std::int64_t steps = 0;  // see ReplayCost
  /// Seconds that each of the other settings may take; 0: none of them is tried.
  double setting_budget_s = 0;
  bool has_bf16 = false;  // the CPU has instructions for it
};

/// Times forward and backward of one batch, filled up to a full one by its own rows, again and
/// again for two seconds at most; within the budget also a larger batch (2, 4 or 8 times the rows),
/// another number of threads (all cores, or one) and bf16. Gradients are thrown away, buffers and
/// generators restored. Returns nothing where a step fails or the run is asked to stop.
std::optional<ReplayedBatch> replay_batch(const Session& session, const ReplayBatch& replay);

/// Where it is cheap to find out, measures at the end of a run what a step takes whose batch is
/// always there. On a CPU and one rank alone: on a GPU the loader takes nothing from the device and
/// the steps' own times tell it, and several ranks would have to measure together.
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
