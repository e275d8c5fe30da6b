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

/// The name of that exchange in failures and reports.
inline constexpr const char* kGradientExchange = "all-reduce of the gradients";

/// Bytes that each of `world_size` ranks sends of a buffer that all of them add, around a ring.
std::int64_t ring_bytes(std::int64_t payload, int world_size);

class DeviceStamps;

/// Books what the exchange of gradients takes, by stamps alone. Called on the thread that runs the
/// backward pass, never on two at once. On a GPU the stamps are events, which are read once they
/// have passed, some steps late.
class SyncMeter {
 public:
  /// none: of steps that are recorded and repeated only bytes are known.
  enum class Stamps { taken, none };
  struct Setup {
    Place place;
    c10::Device device = c10::kCPU;
    std::vector<std::int64_t> bucket_bytes;  // as they are sent
    events::Heartbeat* page = nullptr;
    Stamps stamps = Stamps::taken;
  };

  explicit SyncMeter(Setup setup);
  ~SyncMeter();
  SyncMeter(const SyncMeter&) = delete;
  SyncMeter& operator=(const SyncMeter&) = delete;

  /// The backward pass begins.
  void begin() { launched_ = 0; }
  /// A bucket leaves. With the last one all gradients are computed, and the wait begins.
  void launch();
  /// Buckets that have left since begin().
  [[nodiscard]] std::size_t launched() const { return launched_; }
  /// All buckets are averages. Returns the seconds since the last one left: on a GPU those of
  /// earlier steps that are known by now.
  double end();
  /// A step has exchanged as much as the one that was recorded.
  void repeat();
  /// What was booked since the last call.
  SyncStats take() { return std::exchange(stats_, {}); }
  [[nodiscard]] const std::vector<std::int64_t>& bucket_bytes() const {
    return setup_.bucket_bytes;
  }

 private:
  Setup setup_;
  std::int64_t step_bytes_ = 0;
  std::unique_ptr<DeviceStamps> on_device_;  // null: those of the host count, or none
  std::size_t launched_ = 0;
  double first_ = 0;
  double last_ = 0;
  SyncStats stats_;
};

}  // namespace trainctl::dist
