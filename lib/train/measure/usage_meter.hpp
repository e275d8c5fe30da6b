#pragma once

#include "base/clock.hpp"
#include "base/machine/nvml.hpp"
#include "base/machine/resource_usage.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/options.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace trainctl::train {

/// What has been read from a GPU so far.
struct GpuTotals {
  double at = 0;  // time of the last reading, in seconds of any clock
  int samples = 0;
  int hot = 0;        // samples in which the temperature reduced the clocks
  int throttled = 0;  // samples in which a power limit reduced the clocks
  double util_sum = 0;
  int util_samples = 0;
  GpuCounters counters;
  std::optional<double> power_limit;
};

/// Reads the GPU once and adds the values to the totals.
void read_gpu(const GpuMeter& gpu, double now, GpuTotals& totals);

/// Reads a GPU once per second on a separate thread, because a call of NVML can take milliseconds.
class GpuSampler {
 public:
  /// Reads the GPU once and starts the thread. `clock` must be thread-safe and outlive the object.
  GpuSampler(std::unique_ptr<GpuMeter> gpu, const Clock& clock);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// Returns what the thread has read so far, and asks it for another reading. Never waits for the
  /// driver.
  [[nodiscard]] GpuTotals totals();

 private:
  void run();

  std::unique_ptr<GpuMeter> gpu_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  GpuTotals totals_;     // protected by mutex_, like the flags
  bool wanted_ = false;  // a reading before the second is over
  bool stops_ = false;
  std::thread thread_;  // last member: it uses the others
};

/// Measures the resource usage of the process and the machine per epoch: it reads about twelve
/// small files of /proc and of the control group at the end of each epoch. It reads no clock; the
/// trainer passes its times.
class UsageMeter {
 public:
  using ReadTotals = std::function<GpuTotals()>;

  /// `cores` is the number of cores that the rank may use, 0 if unknown. `gpu` returns what was
  /// read from the GPU; it is null on a CPU.
  UsageMeter(int cores, ReadTotals gpu);

  /// Call it before the first epoch; later calls do nothing.
  void begin();
  /// Returns the usage of an epoch that took `wall_s` seconds. Values of the GPU are those between
  /// the last readings before this and the previous call; absent if there was no reading between.
  /// Returns nullopt for an epoch too short to be worth reading; the next epoch includes it.
  std::optional<events::Usage> take(double wall_s);
  /// Returns the mean of the readings since the last call; nullopt if there are none.
  std::optional<double> take_gpu_util();

 private:
  void add_cores(events::Usage& usage);
  void add_gpu(events::Usage& usage);

  int cores_;
  ReadTotals gpu_;
  std::optional<UsageCounters> before_;
  std::optional<CoreTimes> cores_before_;
  GpuTotals gpu_before_;
  GpuTotals util_before_;
  double span_s_ = 0;
};

/// Adds resource usage to the report of an epoch.
class UsageObserver final : public Observer {
 public:
  UsageObserver(const Session& session, const Options& options);

  void on_epoch_begin(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;

 private:
  const Options& options_;
  std::unique_ptr<GpuSampler> sampler_;  // null on a CPU or without NVML
  UsageMeter meter_;
  double cpu_before_ = 0;         // seconds
  std::int64_t read_before_ = 0;  // bytes read from storage
};

}  // namespace trainctl::train
