#pragma once

#include "base/machine/nvml.hpp"
#include "base/machine/resource_usage.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace trainctl::train {

/// Measures the resource usage of the process and the machine per epoch: it reads about twelve
/// small files of /proc and of the control group at the end of each epoch, and NVML once per
/// second. It reads no clock; the trainer passes its times.
class UsageMeter {
 public:
  /// `cores` is the number of cores that the rank may use, 0 if unknown. `gpu` is null on a CPU.
  UsageMeter(int cores, std::unique_ptr<GpuMeter> gpu);

  /// Call it before the first epoch; later calls do nothing.
  void begin();
  /// Call it at each step with the time in seconds, from any clock.
  void step(double now);
  /// Returns the usage of an epoch that took `wall_s` seconds. Returns nullopt for an epoch too
  /// short to be worth reading; the next epoch includes it.
  std::optional<events::Usage> take(double wall_s);
  /// Returns the mean of the samples since the last call; nullopt if there are none.
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
  int samples_ = 0;  // since the last reported epoch
  int hot_ = 0;
  int throttled_ = 0;
};

/// Adds resource usage to the report of an epoch.
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
  std::int64_t read_before_ = 0;  // bytes read from storage
};

}  // namespace trainctl::train
