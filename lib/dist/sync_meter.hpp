#pragma once

#include "dist/grad_sync.hpp"
#include "events/heartbeat.hpp"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trainctl::dist {

/// The name of the gradient all-reduce in errors and reports.
inline constexpr const char* kGradientExchange = "all-reduce of the gradients";

/// Returns the bytes that each of `world_size` ranks sends in a ring all-reduce.
std::int64_t ring_bytes(std::int64_t payload, int world_size);

class DeviceStamps;

/// Measures the gradient all-reduce by time stamps. Called on the thread of the backward pass,
/// never on two threads at once. On a GPU the stamps are CUDA events, which are read some steps
/// late, once they have completed.
class SyncMeter {
 public:
  /// none: for captured steps, where only bytes are known.
  enum class Stamps { taken, none };
  struct Setup {
    RankInfo rank_info;
    c10::Device device = c10::kCPU;
    std::vector<std::int64_t> bucket_bytes;  // after compression
    events::Heartbeat* page = nullptr;
    Stamps stamps = Stamps::taken;
  };

  explicit SyncMeter(Setup setup);
  ~SyncMeter();
  SyncMeter(const SyncMeter&) = delete;
  SyncMeter& operator=(const SyncMeter&) = delete;

  /// Called when the backward pass begins.
  void begin() { launched_ = 0; }
  /// Called when a bucket is launched. With the last bucket all gradients are computed, and the
  /// exposed time begins.
  void launch();
  /// Returns the number of buckets launched since begin().
  [[nodiscard]] std::size_t launched() const { return launched_; }
  /// Called when all buckets are averaged. Returns the seconds since the last launch; on a GPU
  /// those of earlier steps that are known by now.
  double end();
  /// Counts the bytes of a replayed CUDA graph.
  void repeat();
  /// Returns the statistics since the last call.
  SyncStats take() { return std::exchange(stats_, {}); }
  [[nodiscard]] const std::vector<std::int64_t>& bucket_bytes() const {
    return setup_.bucket_bytes;
  }

 private:
  Setup setup_;
  std::int64_t step_bytes_ = 0;
  std::unique_ptr<DeviceStamps> on_device_;  // null: the host's clock is used, or none
  std::size_t launched_ = 0;
  double first_ = 0;
  double last_ = 0;
  SyncStats stats_;
};

}  // namespace trainctl::dist
