#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace trainctl::device {

/// Work that a device records once and then repeats as one launch, on tensors that stay where they
/// are.
class StepGraph {
 public:
  using Work = std::function<void()>;

  virtual ~StepGraph() = default;
  /// Does the work where it will be recorded, between what is launched before and what is launched
  /// after it: libraries and allocator then have what they need there.
  virtual void warm_up(const Work& work) = 0;
  /// Records the work; nothing of it is done on the device. Throws what `work` throws, or why it
  /// cannot be recorded; the device then is as it was before, and this object is of no more use.
  virtual void record(const Work& work) = 0;
  /// Does what was recorded, on the current stream.
  virtual void replay() = 0;
};

/// Null on a CPU.
std::unique_ptr<StepGraph> make_step_graph(c10::Device device);

}  // namespace trainctl::device
