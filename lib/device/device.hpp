#pragma once

#include "device/feed.hpp"
#include "spec/experiment/experiment.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::device {

/// The device of this rank: `auto` takes a GPU where one is there, else the CPU. Throws
/// Error(resource) where a GPU is asked for and GPU `local_rank` is not there.
c10::Device choose_device(spec::Accelerator accelerator, int local_rank);

/// Largest resident set of this process so far, in MiB.
double peak_rss_mb();
/// The resident set as it is now, in MiB; 0 where the kernel does not tell.
double rss_mb();
/// CPU time of all threads of this process, in seconds.
double cpu_seconds();
/// Bytes this process has read from storage; 0 where the kernel does not tell.
std::int64_t storage_bytes_read();

// What only a CUDA device can do. cuda.cpp does it; no_cuda.cpp, built instead where the wheel has
// no CUDA half, refuses.

/// GPUs that can be used now; 0 without a driver.
int cuda_devices();
/// Binds the calling thread to the GPU. Throws Error(resource).
void use_cuda_device(at::Device device);
std::unique_ptr<Feed> make_cuda_feed(at::Device device, const FeedOptions& options);
/// The memory of a GPU for the images of data sets; null on a CPU, and where this build has no
/// kernels.
std::unique_ptr<data::ImageDevice> make_image_device(at::Device device);
/// The cudaStream_t that is current on a GPU; null on a CPU.
void* current_stream(at::Device device);
/// Peak of the caching allocator in MiB; nothing on a CPU.
std::optional<double> cuda_peak_memory_mb(at::Device device);
/// What it hands out now.
std::optional<double> cuda_memory_mb(at::Device device);

/// Bytes that this process can still have of the GPU: free, or held by its allocator and not handed
/// out. Nothing on a CPU, and where the driver does not say.
std::optional<std::int64_t> cuda_available_memory(at::Device device);

/// What a GPU and its libraries are called; all empty of a CPU.
struct GpuInfo {
  std::string name;        // "NVIDIA H200"
  std::string pci_bus;     // as its driver has it, "00000000:3b:00.0"
  std::string capability;  // "9.0"
  std::string versions;    // of the libraries that compute there, "runtime 13.0, cuDNN 91300"
};
GpuInfo gpu_info(at::Device device);

/// Marks on the device's own time line, read one step late so that measuring never waits for the
/// step.
class EventLine {
 public:
  virtual ~EventLine() = default;
  /// Marks the end of the part begun at the previous mark; `part` is the caller's number.
  virtual void mark(int part) = 0;
  /// The step is launched. Returns the parts of the step before, in seconds, by number.
  virtual const std::vector<double>& end_step() = 0;
};

/// Null on a CPU: there the host's clock tells everything.
std::unique_ptr<EventLine> make_event_line(at::Device device, int parts);

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
