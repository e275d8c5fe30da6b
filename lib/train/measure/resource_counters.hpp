#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace trainctl::train {

/// Counts the floating-point operations of this thread, and of the backward passes that it starts,
/// like torch.utils.flop_counter: two for each multiplication in matrix products, convolutions and
/// attention. Weight gradients of grouped convolutions count once per group. Only one counter can
/// be active at a time.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Returns the part of count() that comes from is_image_convolution() calls.
  [[nodiscard]] std::int64_t image_convolutions() const { return image_convolutions_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call);
  static void on_end(const at::RecordFunction& call, at::ObserverContext* context);

  at::CallbackHandle handle_;
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::int64_t> image_convolutions_{0};
};

/// Returns the operations of one operator call; 0 if the operator is not counted or its arguments
/// are unexpected.
std::int64_t flops_of(std::string_view name, c10::ArrayRef<const at::IValue> inputs);

/// Returns whether the call is the forward pass of a two-dimensional convolution whose output
/// (transposed: input) is at least 4x4. Smaller ones run like a matrix product, whose speed does
/// not depend on the memory format.
bool is_image_convolution(std::string_view name, c10::ArrayRef<const at::IValue> inputs);

/// Counts the bytes that libtorch's allocators hand out on one device, to this thread and to the
/// backward passes that it starts, while it lives. It uses the profiler's memory reports. Memory
/// allocated before is not counted, and neither is its release.
class MemoryMeter {
 public:
  explicit MemoryMeter(at::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// Returns the bytes in use.
  [[nodiscard]] std::int64_t live() const;
  /// Returns the maximum of live() since the last restart_peak().
  [[nodiscard]] std::int64_t peak() const;
  /// Returns the maximum that a GPU's caching allocator has reserved, including free blocks; 0 on a
  /// CPU.
  [[nodiscard]] std::int64_t reserved() const;
  /// Resets the peak to the bytes in use.
  void restart_peak();

 private:
  class Report;

  std::shared_ptr<Report> report_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace trainctl::train
