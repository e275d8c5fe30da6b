#pragma once

#include "base/machine/nvml.hpp"
#include "base/machine/resource_usage.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace trainctl::train {

/// What the process and its machine did from one epoch to the next: a dozen small files of /proc
/// and the control group at the end of each, and NVML once a second. It reads no clock: times are
/// those that the trainer has anyway.
class UsageMeter {
 public:
  /// `cores`: that the rank may use; 0: not known. `gpu` is null on a CPU.
  UsageMeter(int cores, std::unique_ptr<GpuMeter> gpu);

  /// Before the first epoch; later calls do nothing.
  void begin();
  /// At a step. `now`: in seconds, of whatever clock.
  void step(double now);
  /// At the end of an epoch of `wall_s`. Nothing for one so short that reading would cost: the next
  /// one has it, too.
  std::optional<events::Usage> take(double wall_s);
  /// The mean of the samples since the last call; nothing where there was none.
  std::optional<double> take_gpu_util();

 private:
  void add_cores(events::Usage& usage);
  void add_gpu(events::Usage& usage);

  int cores_;
  std::unique_ptr<GpuMeter> gpu_;
  std::optional<UsageCounters> before_;
  std::optional<CoreTimes> cores_before_;
  GpuCounters gpu_before_;
  double span_s_ = 0;
  std::optional<double> sampled_at_;
  double util_sum_ = 0;
  int util_samples_ = 0;
  int samples_ = 0;  // since the last epoch that was told
  int hot_ = 0;
  int braked_ = 0;
};

/// Adds to the report of an epoch what the process and its machine did meanwhile.
class UsageObserver final : public Observer {
 public:
  UsageObserver(const Session& session, const Options& options, const Phases& phases);

  void on_epoch_begin(LoopState& state) override;
  void on_step_end(LoopState& /*state*/) override { meter_.step(phases_.now()); }
  void on_epoch_report(LoopState& state) override;

 private:
  const Options& options_;
  const Phases& phases_;
  UsageMeter meter_;
  double cpu_before_ = 0;         // seconds
  std::int64_t read_before_ = 0;  // bytes, from storage
};

}  // namespace trainctl::train
