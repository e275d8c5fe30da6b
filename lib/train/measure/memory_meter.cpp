#include "train/measure/memory_meter.hpp"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <mutex>

namespace trainctl::train {

/// Other threads report, too: at most one backward pass and the pools of operators.
class MemoryMeter::Report final : public c10::MemoryReportingInfoBase {
 public:
  explicit Report(at::Device device) : device_(device) {}

  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*total*/,
                         std::size_t reserved, c10::Device device) override {
    if (device.type() != device_.type()) return;
    const std::lock_guard lock(mutex_);
    live_ += bytes;  // negative where memory is freed
    peak_ = std::max(peak_, live_);
    reserved_ = std::max(reserved_, static_cast<std::int64_t>(reserved));
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t live() const { return read(live_); }
  [[nodiscard]] std::int64_t peak() const { return read(peak_); }
  [[nodiscard]] std::int64_t reserved() const { return read(reserved_); }
  void restart_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = live_;
  }

 private:
  [[nodiscard]] std::int64_t read(const std::int64_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  at::Device device_;
  mutable std::mutex mutex_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t reserved_ = 0;
};

MemoryMeter::MemoryMeter(at::Device device)
    : report_(std::make_shared<Report>(device)),
      guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, report_)) {}

MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::live() const { return report_->live(); }
std::int64_t MemoryMeter::peak() const { return report_->peak(); }
std::int64_t MemoryMeter::reserved() const { return report_->reserved(); }
void MemoryMeter::restart_peak() { report_->restart_peak(); }

}  // namespace trainctl::train
