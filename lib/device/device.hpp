#pragma once

#include "device/feed.hpp"
#include "spec/experiment/experiment.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::device {

/// Returns the device of this rank: `auto` selects a GPU if there is one, else the CPU. Throws
/// Error(resource) if a GPU is requested and GPU `local_rank` does not exist.
c10::Device choose_device(spec::Accelerator accelerator, int local_rank);

/// Returns the maximum resident set of this process so far, in MiB.
double peak_rss_mb();
/// Returns the current resident set in MiB; 0 if the kernel does not report it.
double rss_mb();
/// Returns the CPU time of all threads of this process, in seconds.
double cpu_seconds();
/// Returns the bytes that this process has read from storage; 0 if the kernel does not report them.
std::int64_t storage_bytes_read();

/// Returns the largest difference of a sample of the elements of `product` from those of the matrix
/// product a x b, which is computed in float64 on the CPU, divided by the standard deviation that
/// they have if the elements of `a` and `b` have the deviation 1. Infinity if one is NaN.
double product_error(const at::Tensor& a, const at::Tensor& b, const at::Tensor& product);

// Functions that need a CUDA device. cuda.cpp implements them in the engine for GPUs, no_cuda.cpp
// in the one for CPUs, which loads no CUDA library.

/// Returns the number of usable GPUs; 0 without a driver.
int cuda_devices();
/// Binds the calling thread to the GPU, and initializes CUDA and its allocator. Throws
/// Error(resource).
void use_cuda_device(at::Device device);
/// Returns the feed that make_feed() uses for a GPU.
std::unique_ptr<Feed> make_cuda_feed(at::Device device, const FeedOptions& options);
/// Returns an allocator of GPU memory for the images of data sets; null on a CPU, and if this build
/// has no kernels.
std::unique_ptr<data::ImageDevice> make_image_device(at::Device device);
/// Returns why the kernels of this build do not run on the GPU. Returns an empty text if they run,
/// on a CPU, and if the build has none.
std::string kernel_obstacle(at::Device device);
/// Waits for the GPU and throws the error of a kernel that ran before, if there is one. Such an
/// error stays in the process, so CUDA also returns it for the launch of a later kernel. For the
/// report of a failed launch.
void throw_kernel_error();
/// Returns the current cudaStream_t on a GPU; null on a CPU.
void* current_stream(at::Device device);
/// Returns the peak of the caching allocator in MiB; nullopt on a CPU.
std::optional<double> cuda_peak_memory_mb(at::Device device);
/// Returns the memory currently allocated by the caching allocator in MiB; nullopt on a CPU.
std::optional<double> cuda_memory_mb(at::Device device);

/// Returns the bytes of GPU memory that this process can still allocate: free, or cached and
/// unused. Returns nullopt on a CPU, and if the driver does not report it.
std::optional<std::int64_t> cuda_available_memory(at::Device device);

/// Properties of a GPU and its libraries; all empty for a CPU.
struct GpuInfo {
  std::string name;        // "NVIDIA H200"
  std::string pci_bus;     // in the driver's format, "00000000:3b:00.0"
  std::string capability;  // "9.0"
  int architecture = 0;    // the capability as in nvcc's "sm_90"
  std::string versions;    // of the CUDA libraries, "runtime 13.0, cuDNN 91300"
};
GpuInfo gpu_info(at::Device device);
/// Returns whether GPU `from` can access the memory of GPU `to` directly, over NVLink or PCIe.
bool has_peer_access(at::Device from, at::Device to);

/// A point in the work of a stream of a GPU, like torch.cuda.Event.
class Event {
 public:
  virtual ~Event() = default;
  /// Marks the end of all work that is launched on the current stream so far.
  virtual void record() = 0;
  /// Returns whether that work is done; true before the first record(). Any thread may call it.
  [[nodiscard]] virtual bool is_done() const = 0;
  /// Returns when that work is done.
  virtual void wait() = 0;
  /// Makes later work on the current stream wait for that work; the host does not wait.
  virtual void block() = 0;
  /// Returns the seconds of the device between an earlier event and this one. Both are done and
  /// have EventUse::timing.
  [[nodiscard]] virtual double seconds_after(const Event& earlier) const = 0;
};

/// An event that does not measure time costs less.
enum class EventUse { order, timing };
/// Returns null on a CPU.
std::unique_ptr<Event> make_event(at::Device device, EventUse use = EventUse::order);

/// Keeps host memory page-locked while it lives, so that copies from and to a GPU run in the
/// background. No copy may be pending when it is destroyed.
class PageLock {
 public:
  virtual ~PageLock() = default;
};

/// Page-locks memory that outlives the result. Returns null on a CPU and, with a warning in the
/// log, if the driver refuses: the host then waits for copies. Memory that is page-locked already
/// must stay so as long as the result lives.
std::unique_ptr<PageLock> lock_pages(at::Device device, std::span<const std::byte> memory);

/// Measures parts of a step with events on the device's stream. Measuring never waits for a step:
/// its times are known some steps later, when the device has finished it.
class EventTimer {
 public:
  virtual ~EventTimer() = default;
  /// Marks the end of the part that began at the previous mark; `part` is a number chosen by the
  /// caller.
  virtual void mark(int part) = 0;
  /// Called when the step is launched. Returns the seconds by part of all steps that the device has
  /// finished since the last call, which may be none.
  virtual const std::vector<double>& end_step() = 0;
  /// Ends the current step and waits for the device. Returns the seconds by part of all steps that
  /// were not returned before.
  virtual const std::vector<double>& finish() = 0;
};

/// Returns null on a CPU, where the host's clock suffices.
std::unique_ptr<EventTimer> make_event_timer(at::Device device, int parts);

/// Parts of a step that are captured once, each as a CUDA graph, and then replayed with one launch
/// each. The graphs share a memory pool, so replay them in the order of their capture; a graph may
/// be replayed several times in a row, or left out. Tensors that they use must not move.
class StepGraph {
 public:
  using Work = std::function<void()>;

  virtual ~StepGraph() = default;
  /// Runs the work on the capture stream, ordered with the work before and after it, so that
  /// libraries and allocator initialize there.
  virtual void warm_up(const Work& work) = 0;
  /// Captures the work as another graph without running it, and returns the number of the graph,
  /// from 0. Throws what `work` throws, or why it cannot be captured; the device state is restored
  /// then, and this object must not be used anymore.
  virtual std::size_t record(const Work& work) = 0;
  /// Replays the graph with that number on the current stream. The host does not wait.
  virtual void replay(std::size_t graph) = 0;
};

/// Returns null on a CPU.
std::unique_ptr<StepGraph> make_step_graph(c10::Device device);

}  // namespace trainctl::device
