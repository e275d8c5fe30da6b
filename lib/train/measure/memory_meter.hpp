#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace trainctl::train {

/// Bytes that libtorch's allocators hand out on one device while it lives, to this thread and to
/// the backward passes that it starts; as the profiler is told of them. Memory from before is not
/// counted, when it is freed neither.
class MemoryMeter {
 public:
  explicit MemoryMeter(at::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// What is handed out now.
  [[nodiscard]] std::int64_t live() const;
  /// The most since the last restart.
  [[nodiscard]] std::int64_t peak() const;
  /// The most that a GPU's allocator has held of its device, free blocks included; 0 on a CPU.
  [[nodiscard]] std::int64_t reserved() const;
  /// `peak` begins anew at what is live.
  void restart_peak();

 private:
  class Report;

  std::shared_ptr<Report> report_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace trainctl::train
