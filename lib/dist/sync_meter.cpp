#include "dist/sync_meter.hpp"

#include "base/clock.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <numeric>
#include <optional>

namespace trainctl::dist {

/// CUDA events on the stream of the backward pass. A step whose slot is needed again before it has
/// ended is not measured, so that nothing waits.
class DeviceStamps {
 public:
  explicit DeviceStamps(c10::Device device) : device_(device), streams_(device.type()) {}

  void launch(bool is_first) {
    Step& step = steps_[current_];
    if (is_first) step.begin(device_.type());
    if (is_first) step.first->record(streams_.getStream(device_));
    step.last->record(streams_.getStream(device_));
  }

  /// Returns the seconds that overlapped the backward pass, and those after it, for all steps that
  /// have ended by now.
  std::pair<double, double> end() {
    Step& step = steps_[current_];
    step.end->record(streams_.getStream(device_));
    step.in_progress = true;
    current_ = (current_ + 1) % steps_.size();
    std::pair<double, double> seconds{};
    for (Step& each : steps_) {
      if (!each.in_progress || !each.end->query()) continue;
      each.in_progress = false;
      seconds.first += each.first->elapsedTime(*each.last) * 1e-3;
      seconds.second += each.last->elapsedTime(*each.end) * 1e-3;
    }
    return seconds;
  }

 private:
  struct Step {
    std::optional<c10::Event> first, last, end;
    bool in_progress = false;

    void begin(c10::DeviceType type) {
      in_progress = false;
      for (std::optional<c10::Event>* event : {&first, &last, &end}) {
        if (!event->has_value()) event->emplace(type, c10::EventFlag::BACKEND_DEFAULT);
      }
    }
  };
  static constexpr std::size_t kSteps = 8;

  c10::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  std::array<Step, kSteps> steps_;
  std::size_t current_ = 0;
};

std::int64_t ring_bytes(std::int64_t payload, int world_size) {
  return world_size > 1 ? payload * 2 * (world_size - 1) / world_size : 0;
}

SyncMeter::SyncMeter(Setup setup)
    : setup_(std::move(setup)),
      step_bytes_(std::accumulate(setup_.bucket_bytes.begin(), setup_.bucket_bytes.end(),
                                  std::int64_t{0})) {
  if (setup_.stamps == Stamps::taken && !setup_.device.is_cpu())
    on_device_ = std::make_unique<DeviceStamps>(setup_.device);
}

SyncMeter::~SyncMeter() = default;

void SyncMeter::launch() {
  const bool is_first = launched_ == 0;
  ++launched_;
  if (on_device_) {
    on_device_->launch(is_first);
  } else {
    last_ = steady_clock().now();
    if (is_first) first_ = last_;
  }
  if (setup_.page != nullptr && launched_ == setup_.bucket_bytes.size())
    setup_.page->begin_collective(kGradientExchange);
}

double SyncMeter::end() {
  if (launched_ == 0) return 0;
  if (setup_.page != nullptr) setup_.page->end_collective();
  repeat();
  if (setup_.stamps == Stamps::none) return 0;
  std::pair<double, double> seconds;
  if (on_device_) {
    seconds = on_device_->end();
  } else {
    seconds = {last_ - first_, steady_clock().now() - last_};
  }
  stats_.overlapped_s += seconds.first;
  stats_.exposed_s += seconds.second;
  return seconds.second;
}

void SyncMeter::repeat() {
  ++stats_.steps;
  stats_.payload_bytes += step_bytes_;
  stats_.wire_bytes += ring_bytes(step_bytes_, setup_.rank_info.world_size);
}

}  // namespace trainctl::dist
