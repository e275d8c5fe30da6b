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
/// as torch.utils.flop_counter does: two for each multiplication of matrix products, convolutions
/// and attention. Weight gradients of grouped convolutions count once a group. One at a time.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// The part of count() that is_image_convolution() holds for.
  [[nodiscard]] std::int64_t image_convolutions() const { return image_convolutions_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call);
  static void on_end(const at::RecordFunction& call, at::ObserverContext* context);

  at::CallbackHandle handle_;
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::int64_t> image_convolutions_{0};
};

/// Those of one call of an operator; 0 of one that is not counted, or whose arguments are others
/// than expected.
std::int64_t flops_of(std::string_view name, c10::ArrayRef<const at::IValue> inputs);

/// Returns whether the call is the forward pass of a two-dimensional convolution that writes (a
/// transposed one: reads) images of at least 4x4. Of smaller ones the time is that of a matrix
/// product, whose speed does not depend on the order of channels and places.
bool is_image_convolution(std::string_view name, c10::ArrayRef<const at::IValue> inputs);

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
